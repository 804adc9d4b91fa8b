"""MCP servers for the tests: one over HTTP for all of them, and what a session starts for itself."""

from collections.abc import Iterator

import pytest
from services.mcp_echo import EchoServer, echo_over_stdio, echo_server


@pytest.fixture(scope="session")
def echo() -> Iterator[EchoServer]:
    """Over streamable HTTP, for whoever brings a token, and doesn't crash it."""
    with echo_server() as server:
        yield server


@pytest.fixture(scope="session")
def open_echo() -> Iterator[EchoServer]:
    """Over streamable HTTP, for whoever doesn't crash it."""
    with echo_server("streamable_http", "--open") as server:
        yield server


@pytest.fixture(params=["stdio", "streamable_http", "sse"])
def echo_settings(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """The settings of a server of the test's own, over each transport."""
    if request.param == "stdio":
        yield echo_over_stdio()
        return
    with echo_server(request.param, "--open") as server:
        yield server.settings()
