"""Texts of people and models: their characters, their forms, personal data in them. Pure."""
