"""What belongs to a user: files, feedback, links, and all of their data."""
