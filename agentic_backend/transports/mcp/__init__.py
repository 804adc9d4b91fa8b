"""MCP over streamable HTTP, for clients that take agents as tools; see docs/doors.md."""
