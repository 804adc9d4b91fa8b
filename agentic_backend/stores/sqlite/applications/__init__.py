"""Records of applications in SQLite."""
