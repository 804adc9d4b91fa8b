"""One run of an agent's graph."""
