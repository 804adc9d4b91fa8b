"""Applications that come with the server; each stands on `agentic_backend.application` alone."""
