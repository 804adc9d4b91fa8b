"""What this door makes of messages that no client of MCP's own makers would send."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource
from support.approval_agents import calls
from support.chat_client import PATIENCE_S
from support.rest_client import plain_http, rest
from support.running_server import RunningServer, running_server
from support.signing_realm import signing_realm

from agentic_backend.transports import credentials

pytestmark = pytest.mark.asyncio(loop_scope="module")

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {}}


@asynccontextmanager
async def http_of(server: RunningServer, user: str, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer dev:{user}", "MCP-Protocol-Version": "2025-11-25", **headers}
    async with plain_http(base_url=server.address, headers=headers, timeout=PATIENCE_S) as http:
        yield http


def message(method: str, params: dict[str, Any] | None = None, id: int | str | None = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def asking(agent: str, text: str, id: int | str = 1, **arguments: str) -> dict[str, Any]:
    meta = {"progressToken": "p"}
    return message("tools/call", {"name": agent, "arguments": {"message": text, **arguments}, "_meta": meta}, id)


async def introduced(http: httpx.AsyncClient) -> None:
    """Introduce a client that has forms."""
    begun = await http.post("/mcp", json=message("initialize", INITIALIZE))
    http.headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]


@asynccontextmanager
async def streamed(http: httpx.AsyncClient, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """The ids and the data of the events that answer a call."""
    async with http.stream("POST", "/mcp", json=body) as response:
        yield _events(response)


async def _events(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    async for event in EventSource(response).aiter_sse():
        yield event.id, json.loads(event.data) if event.data else None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"5",
        b'"text"',
        b"null",
        b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
        b'{"id": 1, "method": "ping"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}',
        b'{"jsonrpc": "2.0", "id": 99999999999999999999, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": "nobody asked", "result": {}}',
        b'{"jsonrpc": "2.0"}',
        json.dumps(message("ping", id="x" * 129)).encode(),
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    ],
)
async def test_what_is_no_message_is_refused_in_the_form_of_one(server: RunningServer, body: bytes) -> None:
    async with http_of(server, "odd") as http:
        refused = await http.post("/mcp", content=body)
    told = refused.json()
    assert (refused.status_code, told["id"], told["error"]["data"]["code"]) == (400, None, "bad_frame")
    assert told["error"]["code"] == -32600


async def test_a_body_beyond_the_limit_is_refused(server: RunningServer) -> None:
    async with http_of(server, "huge") as http:
        message = (await http.post("/mcp", json=asking("echo", "x" * 500_000))).json()
        body = await http.post("/mcp", json=asking("echo", "x" * 2_200_000))
    assert message["result"]["structuredContent"]["error"]["code"] == "message_too_large"
    assert (body.status_code, body.json()["error"]["data"]["code"]) == (413, "message_too_large")


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nothing", {}, -32601),
        ("prompts/list", {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": 5}, -32602),
        ("tools/call", {"name": ["echo"]}, -32602),
        ("resources/read", {}, -32602),
        ("resources/read", {"uri": "file:///etc/passwd"}, -32002),
        ("resources/read", {"uri": "agentic://sessions/../shares/x"}, -32002),
        ("resources/read", {"uri": "agentic://shares/nothing"}, -32002),
        ("resources/list", {"cursor": "nonsense"}, -32602),
        ("resources/list", {"cursor": 5}, -32602),
    ],
)
async def test_a_request_that_fails_says_so_under_its_id(
    server: RunningServer, method: str, params: dict[str, Any], code: int
) -> None:
    async with http_of(server, "failing") as http:
        answer = (await http.post("/mcp", json=message(method, params, id="a"))).json()
    assert (answer["id"], answer["error"]["code"]) == ("a", code)


async def test_a_version_is_agreed_on(server: RunningServer) -> None:
    async with http_of(server, "versions") as http:
        for asked, spoken in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2025-11-25"), ("9999", "2025-11-25")):
            answer = await http.post("/mcp", json=message("initialize", INITIALIZE | {"protocolVersion": asked}))
            assert answer.json()["result"]["protocolVersion"] == spoken
        wrong = await http.post("/mcp", json=message("ping"), headers={"MCP-Protocol-Version": "1999-01-01"})
        assert wrong.status_code == 400
        refused = (await http.post("/mcp", json=message("initialize"))).json()
        assert refused["error"]["code"] == -32602


async def test_a_session_that_nobody_has_begun_is_not_found(server: RunningServer) -> None:
    async with http_of(server, "lost", **{"Mcp-Session-Id": "somebody"}) as http:
        assert (await http.post("/mcp", json=message("ping"))).status_code == 404


async def test_there_is_no_stream_but_that_of_a_call(server: RunningServer) -> None:
    async with http_of(server, "listening") as http:
        assert (await http.get("/mcp")).status_code == 405
        assert (await http.delete("/mcp")).status_code == 405
        for last in ("nonsense", "W10=", "x" * 5_000, "é"):
            refused = await http.get("/mcp", headers={"Last-Event-ID": last.encode()})  # type: ignore[dict-item]
            assert refused.status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "rebound.example"}, 400),
        ({"Authorization": "Bearer x"}, 401),
    ],
    ids=["origin", "host", "token"],
)
async def test_pages_and_names_of_others_and_strangers_are_refused(
    server: RunningServer, headers: dict[str, str], status: int
) -> None:
    async with http_of(server, "strangers", **headers) as http:
        assert (await http.post("/mcp", json=message("ping"))).status_code == status


async def test_who_needs_a_token_is_told_where_to_get_one(tmp_path: Path) -> None:
    async with signing_realm() as realm:
        auth = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
        async with running_server(tmp_path, settings={"auth": auth}) as server, plain_http() as http:
            refused = await http.post(f"{server.address}/mcp", json=message("ping"))
            assert refused.status_code == 401
            scheme, _, told = refused.headers["www-authenticate"].partition(" resource_metadata=")
            metadata = (await http.get(json.loads(told))).json()
    assert scheme == "Bearer" and metadata["authorization_servers"] == [realm.url]
    assert metadata["resource"] == f"{server.address}/mcp"


async def test_a_broken_stream_goes_on_where_it_broke(server: RunningServer) -> None:
    async with http_of(server, "broken") as http:
        seen = []
        async with streamed(http, asking("assistant", "wait 1 second", "a")) as events:
            first, data = await anext(events)
            assert data is None, "there is nothing to tell yet"
            last, told = await anext(events)
            seen.append(told["params"]["progress"])
        async with http.stream("GET", "/mcp", headers={"Last-Event-ID": last}) as response:
            again = [data async for _, data in _events(response)]
        answered = await http.get("/mcp", headers={"Last-Event-ID": last})
        foreign = await http.get("/mcp", headers={"Last-Event-ID": first, "Authorization": "Bearer dev:eve"})
    *progress, answer = again
    assert answer["id"] == "a" and answer["result"]["structuredContent"]["status"] == "ok"
    seen += [each["params"]["progress"] for each in progress]
    assert seen == list(range(1, len(seen) + 1)), "nothing is lost, and nothing told twice"
    assert '"id":"a"' in answered.text, "an answer can be fetched again"
    assert foreign.status_code == 404


async def test_a_call_that_is_sent_again_begins_nothing(server: RunningServer) -> None:
    async with http_of(server, "again") as http, rest(server, "dev:again") as api:
        await introduced(http)
        for _ in range(2):
            async with streamed(http, asking("echo", "hello", 7)) as events:
                assert [data async for _, data in events][-1]["id"] == 7
        assert len((await api.get("/sessions")).json()["sessions"]) == 1


async def test_nobody_reaches_what_is_another_users(server: RunningServer) -> None:
    email = calls(("send_email", {"to": "ann@example.org"}))
    async with http_of(server, "owner") as owner, http_of(server, "thief") as thief, rest(server, "dev:owner") as api:
        await introduced(owner)
        thief.headers["Mcp-Session-Id"] = owner.headers["Mcp-Session-Id"]
        async with streamed(owner, asking("approving", email, 5)) as events:
            form = next_form = None
            async for _, data in events:
                if data is not None and data.get("method") == "elicitation/create":
                    form = data
                    break
            assert form is not None
            [session] = (await api.get("/sessions")).json()["sessions"]
            exchange_id = session["active_exchange_id"]

            approval = {"action": "accept", "content": {"decision": "approve"}}
            answer = {"jsonrpc": "2.0", "id": form["id"], "result": approval}
            assert (await thief.post("/mcp", json=answer)).status_code == 202
            cancelled = message("notifications/cancelled", {"requestId": 5}, id=None)
            assert (await thief.post("/mcp", json=cancelled)).status_code == 202
            stolen = await thief.post("/mcp", json=asking("echo", "hi", session_id=session["id"]))
            assert stolen.json()["result"]["structuredContent"]["error"]["code"] == "session_not_found"
            got = message("tools/call", {"name": "get_answer", "arguments": {"exchange_id": exchange_id}})
            assert (await thief.post("/mcp", json=got)).json()["result"]["isError"]
            read = message("resources/read", {"uri": f"agentic://sessions/{session['id']}"})
            assert (await thief.post("/mcp", json=read)).json()["error"]["code"] == -32002
            assert (await api.get(f"/exchanges/{exchange_id}")).json()["status"] == "awaiting_human"

            # It is its owner's to decide, once.
            assert (await owner.post("/mcp", json=answer)).status_code == 202
            refusal = {**answer, "result": {"action": "accept", "content": {"decision": "reject"}}}
            assert (await owner.post("/mcp", json=refusal)).status_code == 202
            async for _, data in events:
                next_form = data
    assert next_form["result"]["structuredContent"]["answer"] == "sent to ann@example.org"


async def test_who_shares_a_conversation_lets_others_read_it(server: RunningServer) -> None:
    async with rest(server, "dev:sharing") as api, http_of(server, "reading") as http:
        session = (await api.post("/sessions", json={"agent_id": "echo"})).json()
        await api.post(f"/sessions/{session['id']}/messages", json={"content": "good news"})
        link = (await api.post(f"/sessions/{session['id']}/shares", json={})).json()
        read = message("resources/read", {"uri": f"agentic://shares/{link['secret']}"})
        [content] = (await http.post("/mcp", json=read)).json()["result"]["contents"]
    assert "echo: good news" in content["text"] and "sharing" not in content["text"]


async def test_a_cancelled_wait_leaves_the_exchange_alone_and_a_cancelled_ask_tells_who_waits(
    server: RunningServer,
) -> None:
    async with http_of(server, "cancels") as http, rest(server, "dev:cancels") as api:
        await introduced(http)
        async with streamed(http, asking("assistant", "hang after 5 tokens", "ask")) as events:
            await anext(events)
            await anext(events)
            [session] = (await api.get("/sessions")).json()["sessions"]
            arguments = {"exchange_id": session["active_exchange_id"]}
            wait = {"name": "get_answer", "arguments": arguments, "_meta": {"progressToken": "p"}}

            async with streamed(http, message("tools/call", wait, "wait")) as waiting:
                await anext(waiting)
                await http.post("/mcp", json=message("notifications/cancelled", {"requestId": "wait"}, id=None))
                assert not [data async for _, data in waiting if data is not None and "result" in data]
            assert (await api.get(f"/exchanges/{session['active_exchange_id']}")).json()["status"] == "running"

            async with streamed(http, message("tools/call", wait, "wait again")) as waiting:
                await anext(waiting)
                await http.post("/mcp", json=message("notifications/cancelled", {"requestId": "ask"}, id=None))
                stopped = [data async for _, data in waiting][-1]
            assert stopped["result"]["structuredContent"]["status"] == "stopped"
            assert not [data async for _, data in events if data is not None and "result" in data]


async def test_a_form_that_is_cancelled_after_its_stream_broke_ends_the_call(server: RunningServer) -> None:
    async with http_of(server, "returning") as http:
        await introduced(http)
        async with streamed(http, asking("name", "go", 9)) as events:
            async for place, data in events:
                if data is not None and data.get("method") == "elicitation/create":
                    last, form = place, data
                    break
        async with http.stream("GET", "/mcp", headers={"Last-Event-ID": last}) as response:
            answer = {"jsonrpc": "2.0", "id": form["id"], "result": {"action": "cancel"}}
            assert (await http.post("/mcp", json=answer)).status_code == 202
            again = [data async for _, data in _events(response)]
    [waits] = again
    assert waits["id"] == 9 and waits["result"]["structuredContent"]["status"] == "awaiting_human"


@pytest.mark.parametrize("token", [10**30, "x" * 129, True, 1.5, {}, []], ids=str)
async def test_a_token_of_progress_is_an_id(server: RunningServer, token: Any) -> None:
    body = asking("echo", "hello") | {"id": "a"}
    body["params"]["_meta"]["progressToken"] = token
    async with http_of(server, "tokens") as http, rest(server, "dev:tokens") as api:
        answer = (await http.post("/mcp", json=body)).json()
        assert (await api.get("/sessions")).json()["sessions"] == [], "nothing has begun"
    assert answer["id"] == "a" and answer["result"]["structuredContent"]["error"]["code"] == "bad_frame"


async def test_a_client_that_leaves_in_mid_call_leaves_the_exchange_alone(server: RunningServer) -> None:
    async with http_of(server, "leaving") as http, rest(server, "dev:leaving") as api:
        await introduced(http)
        async with streamed(http, asking("assistant", "wait 1 second")) as events:
            await anext(events)
            await anext(events)
        [session] = (await api.get("/sessions")).json()["sessions"]
        async with asyncio.timeout(PATIENCE_S):
            while (found := (await api.get(f"/exchanges/{session['active_exchange_id']}")).json())[
                "status"
            ] == "running":
                await asyncio.sleep(0.05)
    assert found["status"] == "ok"


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_stream_that_ends_with_its_token_is_taken_up_with_another_one(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    soon = int(time.time()) + 2
    headers = {"Authorization": f"Bearer dev:expiring:{soon}", "MCP-Protocol-Version": version}
    async with http_of(server, "expiring", **headers) as http:
        async with streamed(http, asking("assistant", "wait 3 seconds")) as events:
            told = [(place, data) async for place, data in events]
        http.headers["Authorization"] = "Bearer dev:expiring"
        again = await http.get("/mcp", headers={"Last-Event-ID": told[-1][0]})
    answers = [data for _, data in told if data is not None and "result" in data]
    if version == "2025-11-25":
        assert answers == [], "its clients come back by themselves"
    else:
        [answer] = answers
        facts = answer["result"]["structuredContent"]
        assert (facts["status"], facts["error"]["code"]) == ("running", "token_expired")
    assert '"status":"ok"' in again.text
