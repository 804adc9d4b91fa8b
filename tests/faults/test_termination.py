"""SIGTERM: nothing new begins, what is short finishes, the rest drains and can go on, and the process goes in time."""

import asyncio
import json
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest
from support.chat_client import PATH, PATIENCE_S, ChatClient, Event, chat, check_exchange, final_text
from support.fault_agents import notes, words
from support.figures import figure
from support.rest_client import plain_http, rest, sse_events
from support.server_process import ServerProcess, serving
from support.stored_session import stored_session
from websockets.exceptions import ConnectionClosed

RESTART = 1012
GRACE_S = 4.0
# The long one has many steps: whenever the grace period is over, the next of them is near, and many are left.
STEPS = 60
SHORT, LONG = "words 50 50", " | ".join([*(f"note {step} | pause 0.15" for step in range(STEPS)), "words 30 0"])


async def closes_with(client: ChatClient) -> int | None:
    try:
        while True:
            await client.receive(GRACE_S + PATIENCE_S)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


async def test_what_runs_finishes_or_can_go_on(directory: Path) -> None:
    async with serving(cwd=directory, environment={"AGENTIC_SERVER__GRACE_S": str(GRACE_S)}) as server:
        async with chat(server.address) as short, chat(server.address) as long, chat(server.address) as late:
            await short.send({"message": SHORT})
            await long.send({"message": LONG})
            await short.until("delta")
            while notes(directory) == []:
                await asyncio.sleep(0.01)
            terminated_at = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            told_s = await not_ready(server) - terminated_at
            idle_code = await closes_with(late)
            idle_s = time.monotonic() - terminated_at
            codes = await asyncio.gather(*(closes_with(client) for client in (short, long)))
            assert await server.ended() == 0
            took_s = time.monotonic() - terminated_at
    assert [idle_code, *codes] == [RESTART] * 3
    assert max(told_s, idle_s) < took_s, "what is idle doesn't wait for what runs"
    ends = [exchange_of(client) for client in (short, long)]
    for events in ends:
        check_exchange(events)
    assert final_text(ends[0]) == words(50)
    assert (ends[1][-1]["status"], ends[1][-1]["error"]["code"]) == ("interrupted", "interrupted")
    assert 0 < len(notes(directory)) < STEPS
    await goes_on(directory, ends[1][-1])
    figure(
        f"SIGTERM with a grace of {GRACE_S} s: not ready after {told_s:.2f} s, an idle socket sent away after "
        f"{idle_s:.2f} s, a short exchange finished, a long one drained and went on, 3 sockets got 1012, gone after "
        f"{took_s:.2f} s"
    )


def exchange_of(client: ChatClient) -> list[Event]:
    return [event for event in client.events if "seq" in event]


async def not_ready(server: ServerProcess) -> float:
    """When readiness turned false."""
    async with plain_http() as http, asyncio.timeout(PATIENCE_S):
        while (await http.get(f"{server.internal}/health/ready")).status_code != 503:
            await asyncio.sleep(0.01)
        assert (await http.get(f"{server.internal}/health/live")).status_code == 200
    return time.monotonic()


async def goes_on(directory: Path, interrupted: Event) -> None:
    """The drained exchange ends well after a restart, and no tool of it runs again."""
    async with serving(cwd=directory) as server, rest(server) as http:
        async with http.stream("POST", f"/exchanges/{interrupted['exchange_id']}/resume", json={}) as response:
            if response.status_code != 200:
                await response.aread()
            assert response.status_code == 200, response.text
            events = [event async for event in sse_events(response)]
        check_exchange(events)
        assert [exchange.status for exchange in await stored_session(http, interrupted["session_id"])] == [
            "interrupted",
            "ok",
        ]
    assert events[-1]["messages"][-1]["parts"] == [{"type": "text", "text": words(30)}]
    assert [value for value, _ in notes(directory)] == [str(step) for step in range(STEPS)], "each step ran once"


@pytest.mark.parametrize("tool", ["ignore", "block"])
async def test_the_process_is_gone_in_time_whatever_holds_it(directory: Path, tool: str) -> None:
    """A tool that ignores its cancellation or blocks a thread for an hour, and a client that reads nothing."""
    async with serving(cwd=directory, environment={"AGENTIC_SERVER__GRACE_S": "1"}) as server:
        async with chat(server.address) as client:
            await client.send({"message": f"{tool} 3600"})
            while (await client.until("stream"))["message"]["channel"] != "tool_call":
                pass
            writer = await reads_nothing(server)
            began = time.monotonic()
            ending = asyncio.create_task(server.stop())
            assert await closes_with(client) == RESTART
            assert await ending == 0
            took_s = time.monotonic() - began
            writer.close()
    check_exchange(exchange_of(client))
    assert client.events[-1]["status"] == "interrupted"
    figure(
        f"SIGTERM with a tool that goes on ({tool}) and a client that reads nothing: gone {took_s - 1:.2f} s after "
        "the grace period"
    )


async def reads_nothing(server: ServerProcess) -> asyncio.StreamWriter:
    """A client with more answers on their way than its socket holds, of which it reads none."""
    address = httpx.URL(server.address)
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (address.host, address.port))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
    writer.write(
        f"GET {PATH} HTTP/1.1\r\nHost: {address.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: chat.v2\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    ask = json.dumps({"message": "words 20000 0", "mode": "query"}).encode()
    for _ in range(20):
        writer.write(bytes([0x81, 0x80 | len(ask), 0, 0, 0, 0]) + ask)
    await writer.drain()
    await asyncio.sleep(1)
    return writer
