"""What every door promises, in its own form: who may ask, what is refused, how an answer ends, who is let go."""

import asyncio
import json
import logging
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from support.chat_client import PATIENCE_S, chat
from support.doors import DOORS, IN_SESSIONS, LAST_OF_OPENAI, Door, Opened, Outcome, Refused
from support.narrow_sockets import deaf_chat, deaf_post
from support.rest_client import messages_of, metric_at, rest
from support.running_server import RunningServer, running_server
from support.services import require
from support.test_agents import ENTRIES

from agentic_backend.loop.loop_load import LoopLoad
from agentic_backend.server.process import bind
from agentic_backend.transports.contract import doors as contract

pytestmark = pytest.mark.asyncio(loop_scope="module")

on_every_door = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
on_every_door_to_sessions = pytest.mark.parametrize("door", IN_SESSIONS, ids=lambda door: door.name)

HANGS = "hang after 5 tokens"
SEND_TIMEOUT_S = 1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """One for all tests of this file."""
    async with running_server(tmp_path_factory.mktemp("server"), agents=ENTRIES) as server:
        yield server


async def test_each_door_has_a_client_here() -> None:
    # Those of applications are no form of asks.
    others = {"contract", "applications"}
    assert {door.name.split(",")[0] for door in DOORS} == {door.name for door in contract.DOORS} - others


async def opened(server: RunningServer, agent_id: str = "assistant", token: str | None = "dev:alice") -> Opened:
    async with rest(server, token) as http:
        session = (await http.post("/sessions", json={"agent_id": agent_id})).json()
    return Opened(session["id"], session["agent_id"])


async def cancel(server: RunningServer, opened: Opened) -> bool:
    async with rest(server, "dev:alice") as http:
        return bool((await http.post(f"/sessions/{opened.id}/cancel")).json()["cancelled"])


async def refused(
    server: RunningServer, door: Door, opened: Opened, message: object, token: str = "dev:alice"
) -> Refused:
    """The refusal of an ask."""
    async with door.client(server, token) as client:
        with pytest.raises(Refused) as refusal:
            await client.ask(opened, message)
            await client.ended()
    return refusal.value


def check(refusal: Refused, door: Door, status: int, code: str) -> None:
    """Check a refusal; a frame that a socket refuses has no status."""
    assert (refusal.status, refusal.code) == (0 if door.is_socket else status, code)


@on_every_door
async def test_the_answer_is_the_same_on_every_door(server: RunningServer, door: Door) -> None:
    async with door.client(server) as client:
        await client.ask(await opened(server), "What is 12*34?")
        assert await client.ended() == Outcome("ok", "12*34 = 408.")


@on_every_door
@pytest.mark.parametrize(("token", "code"), [("nonsense", "unauthenticated"), ("dev:alice:1", "token_expired")])
async def test_who_is_not_authenticated_is_refused(server: RunningServer, door: Door, token: str, code: str) -> None:
    refusal = await refused(server, door, Opened("s", "assistant"), "hello", token)
    assert (refusal.status, refusal.code) == (401, "" if door.is_socket else code)


@pytest.mark.parametrize("door", [door for door in IN_SESSIONS if not door.opens_sessions], ids=lambda door: door.name)
async def test_a_foreign_session_is_one_that_does_not_exist(server: RunningServer, door: Door) -> None:
    foreign = await refused(server, door, await opened(server), "hello", "dev:bob")
    unknown = await refused(server, door, Opened("nowhere", "assistant"), "hello", "dev:bob")
    check(foreign, door, 404, "session_not_found")
    assert (foreign.status, foreign.code, foreign.content) == (unknown.status, unknown.code, unknown.content)


@on_every_door
@pytest.mark.parametrize("message", [5, [], {}], ids=str)
async def test_a_wrong_body_is_refused_and_the_field_named(server: RunningServer, door: Door, message: Any) -> None:
    refusal = await refused(server, door, await opened(server), message)
    check(refusal, door, 400, "bad_frame")
    assert refusal.content.startswith(f"{door.message}:")


@on_every_door_to_sessions
async def test_a_session_answers_one_ask_at_a_time(server: RunningServer, door: Door) -> None:
    session = await opened(server)
    async with door.client(server) as client:
        await client.ask(session, HANGS)
        await client.begun()
        check(await refused(server, door, session, "hello"), door, 409, "session_busy")
        await cancel(server, session)
        assert (await client.ended()).status == "stopped"


@on_every_door
async def test_an_overloaded_server_takes_no_ask_and_ends_what_it_has_taken(
    server: RunningServer, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(server)
    async with door.client(server) as client:
        await client.ask(session, "wait 1 second")
        await client.begun()
        with monkeypatch.context() as overload:
            overload.setattr(LoopLoad, "answer_s", 60.0)
            assert await metric_at(server.internal, "chat_overloaded") == 1
            check(await refused(server, door, await opened(server), "hello"), door, 503, "overloaded")
            assert (await client.ended()).status == "ok"
        assert await metric_at(server.internal, "chat_overloaded") == 0
    async with door.client(server) as client:
        await client.ask(await opened(server), "What is 12*34?")
        assert (await client.ended()).status == "ok"


@on_every_door
async def test_a_stop_on_another_door_ends_the_answer(server: RunningServer, door: Door) -> None:
    session = await opened(server)
    async with door.client(server) as client:
        await client.ask(session, HANGS)
        begun = await client.begun()
        if door.has_session:
            assert await cancel(server, session)
        else:
            async with chat(server.address, token="dev:alice") as other:
                await other.send({"type": "stop", "exchange_id": door.exchange_id(begun)})
                await other.until("final")
        assert (await client.ended()).status == "stopped"


@on_every_door
async def test_an_answer_goes_on_or_stops_without_its_client_as_is_promised(server: RunningServer, door: Door) -> None:
    session = await opened(server)
    async with rest(server, "dev:alice") as http:
        async with door.client(server) as client:
            await client.ask(session, HANGS if door.stops_with_client else "wait 1 second")
            begun = await client.begun()
            if not door.has_session:
                exchange_id = door.exchange_id(begun)
            else:
                exchange_id = (await http.get(f"/sessions/{session.id}")).json()["active_exchange_id"]
            await client.leave()
            async with asyncio.timeout(PATIENCE_S):
                while (found := (await http.get(f"/exchanges/{exchange_id}")).json()).get("status") in (
                    None,
                    "running",
                ):
                    await asyncio.sleep(0.05)
    assert found["status"] == ("stopped" if door.stops_with_client else "ok")


@on_every_door
async def test_a_failure_is_told_with_its_code(server: RunningServer, door: Door) -> None:
    async with door.client(server) as client:
        await client.ask(await opened(server, "raising"), "hello")
        ended = await client.ended()
    assert (ended.status, ended.code) == ("failed", "internal")


@on_every_door
async def test_who_is_being_answered_is_told_that_the_server_goes(tmp_path: Path, door: Door) -> None:
    async with AsyncExitStack() as stack:
        async with running_server(tmp_path, agents=ENTRIES) as server:
            client = await stack.enter_async_context(door.client(server))
            await client.ask(await opened(server), HANGS)
            await client.begun()
            ending = asyncio.create_task(client.ended())
        ended = await ending
    assert (ended.status, ended.code) == ("failed", "interrupted")


@on_every_door
async def test_more_connections_than_a_user_may_have_are_refused(tmp_path: Path, door: Door) -> None:
    settings = {"limits": {"sockets_per_user": 1}}
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        session = await opened(server)
        async with chat(server.address, token="dev:alice") as first:
            await first.ask("hello")
            refusal = await refused(server, door, session, "hello")
            assert (refusal.status, refusal.code) == (429, "" if door.is_socket else "rate_limited")
            async with rest(server, "dev:alice") as http:
                assert await messages_of(http, session.id) == [], "nothing is stored of what is refused"
        async with door.client(server, "dev:bob") as client:
            await client.ask(await opened(server, token="dev:bob"), "hello")
            assert (await client.ended()).status == "ok"


@on_every_door
async def test_who_does_not_read_is_let_go_and_that_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, door: Door
) -> None:
    caplog.set_level(logging.INFO)
    settings = {"limits": {"send_timeout_s": SEND_TIMEOUT_S}}
    narrow = bind("127.0.0.1", 0)
    # What it accepts inherits this: else the answer would fit into the buffers of the system.
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    async with running_server(tmp_path, agents=ENTRIES, settings=settings, bound=narrow) as server:
        session = await opened(server, "echo", token=None)
        ask = json.dumps(door.body(session, "long " * 40_000))
        async with asyncio.timeout(PATIENCE_S):
            if door.is_socket:
                async with deaf_chat(server.address, subprotocols=door.subprotocols) as client:
                    await client.send(ask)
                    while await metric_at(server.internal, "chat_open_sockets"):
                        await asyncio.sleep(0.05)
            else:
                async with deaf_post(
                    server.address, door.path.format(id=session.id, agent=session.agent_id), ask.encode()
                ):
                    while "client too slow" not in [record.getMessage() for record in caplog.records]:
                        await asyncio.sleep(0.05)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("door", [door for door in DOORS if not door.is_socket], ids=lambda door: door.name)
async def test_curl_reads_an_answer_to_its_end(server: RunningServer, door: Door) -> None:
    require("curl", shutil.which("curl") is not None, "it is not on the PATH")
    session = await opened(server)
    sent = ["-H", "Authorization: Bearer dev:alice", "-d", json.dumps(door.body(session, "What is 12*34?"))]
    curl = await asyncio.create_subprocess_exec(
        "curl",
        "-sN",
        *sent,
        server.address + door.path.format(id=session.id, agent=session.agent_id),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        answer, _ = await curl.communicate()
    assert curl.returncode == 0
    assert door.outcome(data_in(answer)) == Outcome("ok", "12*34 = 408.")


@pytest.mark.parametrize("door", [door for door in DOORS if not door.is_socket], ids=lambda door: door.name)
async def test_a_client_of_http_1_0_that_has_ended_its_side_is_answered(server: RunningServer, door: Door) -> None:
    session = await opened(server)
    body = json.dumps(door.body(session, "What is 12*34?")).encode()
    path = door.path.format(id=session.id, agent=session.agent_id)
    head = f"POST {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer dev:alice\r\nContent-Length: {len(body)}"
    address = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"{head}\r\n\r\n".encode() + body)
    writer.write_eof()
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    writer.close()
    assert door.outcome(data_in(answer)) == Outcome("ok", "12*34 = 408.")


def data_in(answer: bytes) -> list[Any]:
    """The data of the events in an answer."""
    lines = [line.removeprefix("data: ") for line in answer.decode().splitlines() if line.startswith("data")]
    return [json.loads(line) for line in lines if line != LAST_OF_OPENAI]
