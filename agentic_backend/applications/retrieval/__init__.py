"""Answers from people's documents: what is found, in which words it is said, and where it stands."""
