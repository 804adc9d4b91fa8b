"""The server as a process: how it ends when it is told to."""

import asyncio
import json
import os
import pty
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.chat_client import PATH, PATIENCE_S, ChatClient, chat, check_exchange, final_text
from support.log_lines import log_lines, surprising
from support.ports import free_port
from support.process_agents import write_catalog
from support.recorded_agents import eventually
from support.rest_client import plain_http
from support.server_process import ServerProcess, serving
from websockets.exceptions import ConnectionClosed

RESTART = 1012


async def closes_with(client: ChatClient) -> int | None:
    """The code with which the server closes the socket; events that come before are kept by the client."""
    try:
        while True:
            await client.receive()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


def only_logs(server: ServerProcess, *expected: str) -> None:
    """It has said nothing but log lines, and warned of nothing but what is expected."""
    warnings = [line["message"] for line in surprising(log_lines(server.stderr))]
    assert set(warnings) <= {"exchange ended", *expected}, server.stderr


async def test_an_idle_server_ends_at_once(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server:
        async with chat(server.address) as client:
            check_exchange(await client.ask("hello"))
            ending = asyncio.create_task(server.stop(signal.SIGINT))
            assert await closes_with(client) == RESTART
            assert await ending == 0
        only_logs(server)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", httpx.URL(server.address).port or 0), timeout=1)


async def test_what_runs_may_finish_and_its_clients_see_that(tmp_path: Path) -> None:
    environment = {"AGENTIC_SERVER__GRACE_S": "60"}
    async with serving(cwd=tmp_path, environment=environment) as server, chat(server.address) as client:
        await client.send({"message": "count down slowly from 40"})
        await client.until("delta")
        async with chat(server.address) as other, plain_http() as http:
            ending = asyncio.create_task(server.stop())
            assert await becomes(http, f"{server.internal}/health/ready", 503)
            assert (await http.get(f"{server.internal}/health/live")).status_code == 200
            assert await closes_with(other) == RESTART
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", httpx.URL(server.address).port or 0), timeout=1)
        assert await closes_with(client) == RESTART
        events = [event for event in client.events if event["type"] != "session"]
        check_exchange(events)
        assert events[-1]["status"] == "ok" and final_text(events).endswith(" 1, 0")
        assert await ending == 0
        only_logs(server)


async def test_who_is_refused_is_sent_elsewhere_at_once(tmp_path: Path) -> None:
    """By a socket that is kept open by an answer, and over REST."""
    environment = {"AGENTIC_SERVER__GRACE_S": "60"}
    async with serving(cwd=tmp_path, environment=environment) as server, chat(server.address) as client:
        await client.send({"message": "count down slowly from 40"})
        session_id = (await client.until("delta"))["session_id"]
        reader, writer = await asyncio.open_connection(*host_of(server))
        assert (await rest_answer(reader, writer, "GET", f"/sessions/{session_id}"))[0] == 200
        ending = asyncio.create_task(server.stop())
        async with plain_http() as http:
            assert await becomes(http, f"{server.internal}/health/ready", 503)
        status, headers, body = await rest_answer(
            reader, writer, "POST", f"/sessions/{session_id}/messages", b'{"content": "too late"}'
        )
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert json.loads(body)["error"]["code"] == "shutting_down"
        assert await reader.read() == b"", "the server has closed the connection"
        writer.close()
        await client.send({"message": "too late", "client_exchange_id": "mine"})
        refusal = await client.until("error")
        assert (refusal["code"], refusal["client_exchange_id"]) == ("shutting_down", "mine")
        assert (refusal["retryable"], refusal["retry_after_s"]) == (True, 1)
        assert await closes_with(client) == RESTART
        assert [event["type"] for event in client.events].count("final") == 0, "its answer goes on without it"
        assert await ending == 0
        only_logs(server)
    async with serving(cwd=tmp_path) as server, plain_http() as http:
        stored = (await http.get(f"{server.address}/agentic/v1/sessions/{session_id}/messages")).json()["messages"]
        assert stored[-1]["parts"][0]["text"].endswith(" 1, 0")


def host_of(server: ServerProcess) -> tuple[str, int]:
    url = httpx.URL(server.address)
    return url.host, url.port or 0


async def rest_answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the body of a REST call on a connection that is open."""
    head = f"{method} /agentic/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(status.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def test_a_second_signal_cuts_short_and_a_third_changes_nothing(tmp_path: Path) -> None:
    environment = {"AGENTIC_SERVER__GRACE_S": "600"}
    async with serving(cwd=tmp_path, environment=environment) as server, chat(server.address) as client:
        await client.send({"message": "count down slowly from 1000"})
        await client.until("delta")
        server.process.send_signal(signal.SIGTERM)
        async with plain_http() as http:
            assert await becomes(http, f"{server.internal}/health/ready", 503)
        await asyncio.sleep(0.3)
        assert server.process.returncode is None
        # Not by asyncio, which would ask for the status of a process that is gone after the first of them.
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(server.pid, number)
        ending = asyncio.create_task(server.ended())
        assert await closes_with(client) == RESTART
        events = [event for event in client.events if event["type"] != "session"]
        check_exchange(events)
        assert (events[-1]["status"], events[-1]["error"]["code"]) == ("interrupted", "interrupted")
        assert await ending == 0
        only_logs(server)


async def test_a_hangup_ends_nothing(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server, chat(server.address) as client:
        for _ in range(3):
            server.process.send_signal(signal.SIGHUP)
        check_exchange(await client.ask("hello"))
        await eventually(lambda: "catalog reloaded" in server.stderr)
        assert await server.stop() == 0
        only_logs(server)


@pytest.mark.skipif(sys.platform != "linux", reason="a terminal is made as Linux does it")
async def test_a_terminal_that_closes_ends_nothing(tmp_path: Path) -> None:
    """Its hangup goes to all of its processes, and nothing can be written to it any more."""
    ours, theirs = pty.openpty()
    environment = {
        "AGENTIC_MODELS__DEFAULT__MODEL": "offline",
        "PATH": os.environ["PATH"],
        "AGENTIC_LOG__LEVEL": "info",
    }
    address, internal = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    ports = ["--port", str(httpx.URL(address).port), "--internal-port", str(httpx.URL(internal).port)]
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", AT_A_TERMINAL, *ports],
        cwd=tmp_path,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    async with plain_http() as http:
        async with asyncio.timeout(PATIENCE_S):
            while not await answers(http, f"{internal}/health/ready"):
                await asyncio.sleep(0.1)
        os.close(ours)
        async with chat(address) as client:
            check_exchange(await client.ask("hello"))
            check_exchange(await client.ask("hello again"))
    process.terminate()
    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait() >= 0, "it ended by itself"


AT_A_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from agentic_backend.cli import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""


async def answers(http: httpx.AsyncClient, address: str) -> bool:
    try:
        return (await http.get(address)).status_code == 200
    except httpx.TransportError:
        return False


async def becomes(http: httpx.AsyncClient, address: str, status: int) -> bool:
    async with asyncio.timeout(PATIENCE_S):
        while (await http.get(address)).status_code != status:
            await asyncio.sleep(0.01)
    return True


async def test_what_does_not_finish_is_interrupted_and_its_clients_see_that(tmp_path: Path) -> None:
    environment = {"AGENTIC_SERVER__GRACE_S": "0.3"}
    async with serving(cwd=tmp_path, environment=environment) as server, chat(server.address) as client:
        await client.running("count down slowly from 1000", words=2)
        streamed: list[str] = []
        sse = asyncio.create_task(events_of_stream(server, streamed))
        await eventually(lambda: streamed or sse.done())
        ending = asyncio.create_task(server.stop())
        assert await closes_with(client) == RESTART
        events = [event for event in client.events if event["type"] != "session"]
        check_exchange(events)
        assert (events[-1]["status"], events[-1]["error"]["code"]) == ("interrupted", "interrupted")
        assert final_text([*events[:-1], without_question(events[-1])]).startswith("1000, 999")
        await sse
        assert streamed[-2:] == ["event: error", "event: final"]
        assert await ending == 0
        only_logs(server)
        exchange_id = events[-1]["exchange_id"]
    async with serving(cwd=tmp_path) as server, plain_http() as http:
        response = await http.get(f"{server.address}/agentic/v1/exchanges/{exchange_id}")
        assert response.json()["status"] == "interrupted"
        stored = await http.get(f"{server.address}/agentic/v1/sessions/{events[-1]['session_id']}/messages")
        assert stored.json()["messages"] == events[-1]["messages"]


def without_question(final: dict[str, Any]) -> dict[str, Any]:
    return {**final, "messages": final["messages"][1:]}


async def events_of_stream(server: ServerProcess, streamed: list[str]) -> None:
    """Collect the types of the events of an ask over REST, to its end."""
    async with httpx.AsyncClient(base_url=f"{server.address}/agentic/v1", timeout=30) as http:
        session = (await http.post("/sessions", json={})).json()
        body = {"content": "count down slowly from 1000"}
        async with http.stream("POST", f"/sessions/{session['id']}/messages", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("event:"):
                    streamed.append(line)


@pytest.mark.parametrize("agent_id", ["stubborn", "blocking"])
async def test_a_tool_that_never_ends_does_not_keep_the_process(tmp_path: Path, agent_id: str) -> None:
    write_catalog(tmp_path)
    environment = {"AGENTIC_SERVER__GRACE_S": "0.1"}
    async with serving(cwd=tmp_path, environment=environment) as server, chat(server.address) as client:
        await client.send({"message": "call work()", "agent_id": agent_id})
        while (await client.until("stream"))["message"]["channel"] != "tool_call":
            pass
        ending = asyncio.create_task(server.stop())
        assert await closes_with(client) == RESTART
        check_exchange([event for event in client.events if event["type"] != "session"])
        assert client.events[-1]["status"] == "interrupted"
        assert await ending == 0
        only_logs(server, "process exits while agents still run")


async def test_a_client_that_reads_nothing_does_not_keep_the_process(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path, environment={"AGENTIC_SERVER__GRACE_S": "0.1"}) as server:
        address = httpx.URL(server.address)
        reader, writer = await asyncio.open_connection(address.host, address.port, limit=1024)
        writer.write(
            f"GET {PATH} HTTP/1.1\r\nHost: {address.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: chat.v2\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        ask = json.dumps({"message": "write 20000 words", "mode": "query"}).encode()
        for _ in range(20):
            writer.write(bytes([0x81, 0x80 | len(ask), 0, 0, 0, 0]) + ask)
        await writer.drain()
        await asyncio.sleep(0.5)
        assert await server.stop() == 0
        only_logs(server)
        writer.close()
