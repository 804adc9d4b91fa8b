"""How much is used of what the system allows."""
