"""Applications that come with the server: each is on the public surface of `agentic_backend.application` alone."""
