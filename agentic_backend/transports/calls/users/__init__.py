"""The REST calls about the caller, and about the server that answers."""
