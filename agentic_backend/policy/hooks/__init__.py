"""Modules: made, called within limits, and what comes of their answers."""
