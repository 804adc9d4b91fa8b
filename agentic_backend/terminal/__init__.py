"""The terminal client: `agentic-backend chat`. It is made of the Python client, and needs nothing of the server."""
