"""Looking for what answers a question, in several ways at once, and the order of what was found."""
