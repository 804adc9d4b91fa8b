"""Vectors in a store beside the database, if the settings name one."""
