"""Agents that their catalog entries make, without code of their own."""
