"""Spans and ids of calls: REST calls, and each door at which an exchange begins, on both databases."""

import json
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import PATIENCE_S, chat
from support.doors import DOORS, Door, Opened
from support.otlp_receiver import OtlpReceiver, otlp_receiver
from support.providers.model_server import ModelServer, model_server
from support.providers.reply import Reply
from support.rest_client import PREFIX, plain_http, rest
from support.running_server import EVERY_DOOR, RunningServer, running_server

TRACE, SPAN, REQUEST_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "order-17"
NAMED = {"X-Request-Id": REQUEST_ID, "traceparent": f"00-{TRACE}-{SPAN}-01"}
SERVER, CLIENT = 2, 3
"""Kinds of spans."""


@asynccontextmanager
async def traced(directory: Path, receiver: OtlpReceiver, **settings: Any) -> AsyncIterator[RunningServer]:
    tracing, quiet = {"endpoint": receiver.url}, {"enabled": False}
    server = {"port": 0, "grace_s": 0.2, "doors": EVERY_DOOR}
    more = {"tracing": tracing, "titles": quiet, "server": server, **settings}
    async with running_server(directory, settings=more) as running:
        yield running


def model_of(provider: ModelServer, **options: Any) -> dict[str, Any]:
    return {"default": {"model": "openai:gpt-test", "options": {"base_url": f"{provider.url}/v1", **options}}}


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[dict[str, Any]]:
    """The settings of a database."""
    if request.param == "sqlite":
        yield {}
        return
    async with fresh_database(server_url(request.param, request)) as url:
        # A busy machine may let the database wait.
        yield {"store": {"url": url, "timeout_s": 60}}


async def test_a_rest_call_is_a_span_with_the_operations_of_its_store(tmp_path: Path, store: dict[str, Any]) -> None:
    async with otlp_receiver() as receiver:
        async with traced(tmp_path, receiver, **store) as server, rest(server, **NAMED) as client:
            opened = (await client.post("/sessions", json={})).json()
            read = await client.get(f"/sessions/{opened['id']}")
            assert read.headers["x-request-id"] == REQUEST_ID
            assert (await client.get("/sessions/nowhere")).status_code == 404
            await client.post(f"/sessions/{opened['id']}/messages", json={"content": "hello"})
    calls = [span for span in receiver.spans if span.name == f"GET {PREFIX}/sessions/{{id}}"]
    found, unknown = sorted(calls, key=lambda span: int(span.attributes["http.response.status_code"]))
    assert (found.trace, found.parent, found.kind, found.is_error) == (TRACE, SPAN, SERVER, False)
    assert read.headers["traceparent"] == f"00-{TRACE}-{found.id}-01"
    told = found.attributes
    assert (told["http.request.method"], told["http.route"]) == ("GET", f"{PREFIX}/sessions/{{id}}")
    assert (told["url.scheme"], told["url.path"]) == ("http", f"{PREFIX}/sessions/{opened['id']}")
    assert told["http.response.status_code"] == 200
    # A refusal is no failure of the server.
    assert not unknown.is_error and "error.type" not in unknown.attributes
    assert unknown.attributes["agentic.error.code"] == "session_not_found"
    asking, [exchange] = receiver.named(f"POST {PREFIX}/sessions/"), receiver.exchanges()
    assert exchange.parent == asking.id
    database = "mongodb" if store else "sqlite"
    for around, operation in (
        (found, "get_session"),
        (unknown, "get_session"),
        (asking, "begin_exchange"),
        (exchange, "append"),
    ):
        span = next(each for each in receiver.spans if (each.parent, each.name) == (around.id, operation))
        assert (span.kind, span.is_error) == (CLIENT, False)
        assert (span.attributes["db.system.name"], span.attributes["db.operation.name"]) == (database, operation)


@pytest.mark.redis
async def test_what_other_instances_are_told_is_in_the_trace_of_the_exchange(tmp_path: Path, redis_url: str) -> None:
    async with otlp_receiver() as receiver:
        async with traced(tmp_path, receiver, broadcast={"url": redis_url}) as server:
            async with rest(server, **NAMED) as client:
                session = (await client.post("/sessions", json={})).json()
                # The connection may come after an exchange that began before it: its whole log is told then.
                await client.post(f"/sessions/{session['id']}/messages", json={"content": "hello"})
    call = receiver.named(f"POST {PREFIX}/sessions/")
    told = [span for span in receiver.spans if span.attributes.get("db.system.name") == "redis"]
    assert told and {(span.name, span.trace, span.parent, span.kind) for span in told} == {
        ("XADD", TRACE, call.id, CLIENT)
    }


async def test_the_path_of_a_share_is_in_no_span_as_it_is_a_key(tmp_path: Path) -> None:
    async with otlp_receiver() as receiver:
        async with traced(tmp_path, receiver) as server, rest(server, **NAMED) as client:
            await client.get("/shares/quokkaberrywombatfruit")
    shared = receiver.named(f"GET {PREFIX}/shares/")
    assert shared.name.endswith("/{secret}") and shared.attributes["url.path"].endswith("/shares/[redacted]")
    assert b"quokkaberry" not in receiver.raw


async def test_a_store_that_fails_is_the_error_of_its_call(tmp_path: Path) -> None:
    async with otlp_receiver() as receiver:
        async with traced(tmp_path, receiver) as server, rest(server, **NAMED) as client:
            with sqlite3.connect(server.data / "chat.sqlite3") as other:
                other.execute("ALTER TABLE sessions RENAME TO gone")
            other.close()
            assert (await client.get("/sessions/nowhere")).status_code == 503
    failed = [span for span in receiver.spans if span.is_error and span.trace == TRACE]
    assert {span.name for span in failed} == {f"GET {PREFIX}/sessions/{{id}}", "get_session"}
    assert {span.attributes["error.type"] for span in failed} == {"store_unavailable"}
    [call] = [span for span in failed if span.kind == SERVER]
    assert call.attributes["http.response.status_code"] == 503


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
async def test_an_exchange_is_beneath_the_call_that_asks_at_each_door(
    tmp_path: Path, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentic_backend")
    async with otlp_receiver() as receiver, model_server() as provider:
        provider.reply = lambda messages: Reply("numbatjuice")
        models = {"models": model_of(provider, api_key="sk-none")}
        async with traced(tmp_path, receiver, **models) as server:
            async with rest(server, token="dev:alice") as client:
                session = (await client.post("/sessions", json={})).json()
            answered = await asked(server, door, Opened(session["id"], session["agent_id"]))
            async with plain_http() as http:
                lines = [json.loads(line) for line in (await http.get(f"{server.internal}/log")).text.splitlines()]
    [exchange] = receiver.exchanges()
    [call] = [span for span in receiver.spans if span.id == exchange.parent]
    method, operation = "ask" if door.is_socket else "POST", door.path.replace("{agent}", "{id}")
    assert (call.name, call.trace, call.parent, call.kind) == (f"{method} {operation}", TRACE, SPAN, SERVER)
    if not door.is_socket:
        assert answered["traceparent"] == f"00-{TRACE}-{call.id}-01"
    assert answered["x-request-id"] == REQUEST_ID
    # The model gets the same, and the span that calls it.
    [chat_span] = receiver.all_named("chat ")
    assert receiver.path(chat_span)[:2] == [call.name, "exchange"]
    sent = provider.asked[0].headers
    assert (sent["x-request-id"], sent["traceparent"]) == (REQUEST_ID, f"00-{TRACE}-{chat_span.id}-01")
    of_exchange = [line for line in lines if line.get("exchange_id") == exchange.attributes["agentic.exchange.id"]]
    assert {line["message"] for line in of_exchange} >= {"exchange started", "exchange ended"}
    assert {(line["request_id"], line["trace_id"]) for line in of_exchange} == {(REQUEST_ID, TRACE)}


async def asked(server: RunningServer, door: Door, opened: Opened) -> dict[str, str]:
    """Ask at this door, with ids; the headers of the answer, or of that to the upgrade."""
    if door.is_socket:
        headers = {"Authorization": "Bearer dev:alice", **NAMED}
        async with chat(server.address, subprotocols=door.subprotocols, additional_headers=headers) as client:
            await client.send(door.body(opened, "hello"))
            while door.outcome(client.events) is None:
                await client.receive()
            assert client.socket.response is not None
            return {name.lower(): value for name, value in client.socket.response.headers.raw_items()}
    headers = {"Authorization": "Bearer dev:alice", **NAMED}
    async with plain_http(base_url=server.address, headers=headers, timeout=PATIENCE_S) as http:
        path = door.path.format(id=opened.id, agent=opened.agent_id)
        response = await http.post(path, json=door.body(opened, "hello"))
        assert response.status_code == 200, response.text
        return dict(response.headers)
