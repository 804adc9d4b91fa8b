"""What people put into collections: files, archives, and folders that are put there by commands."""
