"""A blocked network: this machine can be reached, and nothing else; what tries is told."""

import asyncio
import contextlib
import socket
from typing import Any

import httpx
import pytest
import uvloop
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.testing import NetworkBlocked, blocked_network, run_agent
from agentic_backend.testing.network import is_local

# Of TEST-NET-1 (RFC 5737), which nobody has.
NOWHERE = "192.0.2.1"


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", b"localhost", socket.gethostname(), None, ""],
)
def test_this_machine_is_local(host: object) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host", [NOWHERE, "example.org", b"example.org", "localhost.example.org", "10.0.0.1", "fe80::1%eth0"]
)
def test_nothing_else_is(host: object) -> None:
    assert not is_local(host)


async def test_sockets_reach_this_machine_only() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    before = socket.socket.connect
    with blocked_network() as outer, blocked_network() as tried:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        with socket.socket() as own, pytest.raises(NetworkBlocked, match=NOWHERE):
            own.connect((NOWHERE, 80))
        with socket.socket(type=socket.SOCK_DGRAM) as own, pytest.raises(NetworkBlocked):
            own.sendto(b"", (NOWHERE, 53))
        with pytest.raises(NetworkBlocked) as caught:
            socket.getaddrinfo("example.org", 443)
        with pytest.raises(NetworkBlocked):
            await httpx.AsyncClient().get("http://example.org")
        with pytest.raises(NetworkBlocked):
            await asyncio.open_connection(NOWHERE, 80)
    assert caught.value.host == "example.org"
    assert tried == outer == [NOWHERE, NOWHERE, "example.org", "example.org", NOWHERE]
    assert socket.socket.connect is before
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("name", ["gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"])
def test_names_are_asked_of_this_machine_only(name: str) -> None:
    def ask(host: str) -> None:
        getattr(socket, name)(*([(host, 80), 0] if name == "getnameinfo" else [host]))

    with blocked_network() as tried:
        # Which may not know its own name.
        with contextlib.suppress(socket.herror):
            ask("127.0.0.1")
        with pytest.raises(NetworkBlocked):
            ask(NOWHERE)
    assert tried == [NOWHERE]


def test_datagrams_reach_this_machine_only() -> None:
    with (
        blocked_network() as tried,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connected,
        socket.socket(type=socket.SOCK_DGRAM) as own,
    ):
        assert connected.sendmsg([b"connected"], [], 0) == 9
        assert own.sendmsg([b""], [], 0, ("127.0.0.1", server.getsockname()[1])) == 0
        with pytest.raises(NetworkBlocked):
            own.sendmsg([b""], [], 0, (NOWHERE, 53))
    assert tried == [NOWHERE]


def test_uvloop_is_blocked_too() -> None:
    async def connect() -> None:
        with blocked_network(), pytest.raises(NetworkBlocked, match=NOWHERE):
            await asyncio.open_connection(NOWHERE, 80)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(connect())


async def test_a_run_tells_who_was_tried() -> None:
    async def fetch(state: MessagesState) -> dict[str, Any]:
        try:
            await httpx.AsyncClient().get("https://example.org/")
        except NetworkBlocked:
            return {"messages": [AIMessage("It can't be reached.")]}
        raise AssertionError("was reached")

    graph = StateGraph(MessagesState)
    graph.add_node("fetch", fetch)
    graph.add_edge(START, "fetch")
    run = await run_agent(graph.compile(), "Fetch it")
    assert run.final_text == "It can't be reached."
    assert run.blocked_hosts == ["example.org"] and "blocked: example.org" in repr(run)
