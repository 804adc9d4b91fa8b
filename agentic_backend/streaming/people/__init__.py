"""What a graph asks of a person, and what the answer makes of it. Pure."""
