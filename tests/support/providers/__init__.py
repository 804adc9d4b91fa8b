"""Model providers as small HTTP servers with configurable answers."""
