"""The HTML documents in which MCP tools show their results (MCP Apps): read, kept, and what they may reach."""
