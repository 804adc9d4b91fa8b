"""The MCP server of the new agent: a program that talks over its standard input and output."""

from mcp.server.fastmcp import FastMCP

PARCELS = {"A1": "in Basel", "B2": "on its way to Bern"}

server = FastMCP("new-agent")


@server.tool()
def find_parcel(number: str) -> str:
    """Tell where a parcel is, by its number."""
    return PARCELS.get(number, "unknown")


if __name__ == "__main__":
    server.run()
