"""What the commands of `agentic-backend` do."""
