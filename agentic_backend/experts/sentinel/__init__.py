"""Sentinel: the expert that watches its own server through the tools of a shipped MCP server."""
