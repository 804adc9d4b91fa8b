"""What waits for a person, and how it goes on: decisions, expiry, resumption."""
