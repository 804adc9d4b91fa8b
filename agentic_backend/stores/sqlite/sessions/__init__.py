"""Sessions, their exchanges and their messages in SQLite."""
