"""The journal of deletions, outside the database: with it a restored backup loses again what was deleted."""
