from mcp.server.fastmcp import FastMCP

server = FastMCP("forecasts")


@server.tool()
def forecast(city: str) -> str:
    """Tell tomorrow's weather in a city."""
    return f"Tomorrow it rains in {city}."


if __name__ == "__main__":
    server.run()
