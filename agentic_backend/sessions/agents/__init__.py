"""The agents that admins keep in the database."""
