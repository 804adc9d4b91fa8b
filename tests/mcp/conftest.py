"""MCP servers for the tests: one over HTTP for all of them, and what a session starts for itself."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from services.mcp_echo import Echoes, EchoServer, echo_over_stdio, echo_server


@pytest.fixture(scope="session")
def echoes() -> Iterator[Echoes]:
    """Starts a server for these arguments of `echo_server` once, for whoever doesn't crash it."""
    with ExitStack() as servers:
        yield cache(lambda *arguments: servers.enter_context(echo_server(*arguments)))


@pytest.fixture(scope="session")
def echo(echoes: Echoes) -> EchoServer:
    """Over streamable HTTP, for whoever brings a token, and doesn't crash it."""
    return echoes("streamable_http")


@pytest.fixture(scope="session")
def open_echo(echoes: Echoes) -> EchoServer:
    """Over streamable HTTP, for whoever doesn't crash it."""
    return echoes("streamable_http", "--open")


@pytest.fixture(params=["stdio", "streamable_http", "sse"])
def shared_echo_settings(request: pytest.FixtureRequest, echoes: Echoes) -> dict[str, object]:
    """The settings of a server over each transport, for whoever doesn't crash it."""
    return echo_over_stdio() if request.param == "stdio" else echoes(request.param, "--open").settings()


@pytest.fixture(params=["stdio", "streamable_http", "sse"])
def echo_settings(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """The settings of a server of the test's own, over each transport."""
    if request.param == "stdio":
        yield echo_over_stdio()
        return
    with echo_server(request.param, "--open") as server:
        yield server.settings()
