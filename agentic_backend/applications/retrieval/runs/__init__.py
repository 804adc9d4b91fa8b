"""The application's own door: runs that answer one question, alone or as a turn of a chat session."""
