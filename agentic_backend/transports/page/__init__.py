"""How the server serves the chat page: its modules linked into few files, compressed and named by their content."""
