"""Chat and embedding models: built, prepared, read within bounds, retried, and their failures told apart."""
