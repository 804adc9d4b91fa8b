"""The configuration: read at the start, and again while the server runs."""
