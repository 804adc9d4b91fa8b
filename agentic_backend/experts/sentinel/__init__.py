"""Sentinel: the expert that watches the server it runs on, by the tools of an MCP server that ships with it."""
