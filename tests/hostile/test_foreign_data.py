"""Another user's data: no call and no frame that names it says more than that there is nothing of this name."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import ChatClient, chat
from support.contract import declared, example_body, example_path
from support.figures import figure
from support.rest_client import messages_of, rest, sse_events
from support.running_server import RunningServer, running_server
from support.signing_realm import SigningRealm, signing_realm
from support.test_agents import ENTRIES

from agentic_backend.transports.rest.operation import Operation

SECRET = "quokkaberry"
NEW_TITLE = next(body["title"] for each in declared() if each.method == "PATCH" and (body := example_body(each)))
# Every operation with an id in its path, and the paths of those with one in their body.
CALLS = [operation for operation in declared() if "{id}" in operation.path]
IDS = {"session_id", "exchange_id", "conversation_id", "run_id"}
IN_BODIES = {each.path for each in declared() if each.body is not None and IDS & each.body.model_fields.keys()}
# There they are names of the client's own, which lead nobody to another's session (transports/ag_ui/test_protocol.py).
IN_BODIES -= {"/ag-ui/agents/{id}"}


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def store_url(request: pytest.FixtureRequest) -> AsyncIterator[str | None]:
    async with AsyncExitStack() as opened:
        server = None if request.param == "sqlite" else server_url(request.param, request)
        yield None if server is None else await opened.enter_async_context(fresh_database(server))


@pytest.fixture
async def realm() -> AsyncIterator[SigningRealm]:
    async with signing_realm() as realm:
        yield realm


@pytest.fixture
async def server(realm: SigningRealm, store_url: str | None, tmp_path: Path) -> AsyncIterator[RunningServer]:
    settings: dict[str, Any] = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}}
    if store_url is not None:
        settings["store"] = {"url": store_url}
    slow = {"default": {"model": "offline", "options": {"words_per_second": 20}}}
    async with running_server(tmp_path, agents=ENTRIES, settings={**settings, "models": slow}) as server:
        yield server


class Owned:
    """What Alice has: of each kind of exchange one, each in a session of its own."""

    def __init__(self) -> None:
        self.sessions: dict[str, str] = {}
        self.exchanges: dict[str, str] = {}
        self.interrupt_id = ""

    async def fill(self, alice: ChatClient) -> None:
        for kind, agent, message in [
            ("ended", "echo", f"it is {SECRET}"),
            ("waiting", "asking", f"ask me about {SECRET}"),
            ("running", "assistant", f"repeat after me: {' '.join([SECRET] * 2000)}"),
        ]:
            await alice.send({"message": message, "agent_id": agent, "client_exchange_id": f"name of {kind}"})
            started = await alice.until("started")
            self.sessions[kind], self.exchanges[kind] = started["session_id"], started["exchange_id"]
            if kind == "waiting":
                asked = await alice.until("awaiting_human", exchange_id=self.exchanges[kind])
                self.interrupt_id = asked["payload"]["requests"][0]["interrupt_id"]
            else:
                await alice.until("final" if kind == "ended" else "delta", exchange_id=self.exchanges[kind])
            if kind != "running":
                # No title is to change while the test looks.
                await alice.named(self.sessions[kind])
        await alice.send({"message": f"write 500 words, {SECRET}", "mode": "query"})
        self.exchanges["query"] = (await alice.until("started"))["exchange_id"]


def without_names(answer: Any, *ids: str) -> str:
    """What an answer says, but for the ids that were asked about and the request's own."""
    text = re.sub(r'"request_?[iI]d":\s*"[^"]*"', '""', answer if isinstance(answer, str) else json.dumps(answer))
    for each in ids:
        text = text.replace(each, "id")
    assert SECRET not in text
    return text


async def called(client: httpx.AsyncClient, address: str, operation: Operation, id: str) -> str:
    """What the operation says of this id, called with the parameters that it needs and the body that it shows."""
    body = example_body(operation)
    if operation.path.endswith("/resume"):
        body = {"payload": {"answers": {"i": "left"}}}
    response = await client.request(operation.method, address + example_path(operation, id), json=body)
    assert response.status_code in (403, 404), (operation.id, response.text)
    return f"{response.status_code} {response.text}"


def bodies(id: str) -> list[tuple[str, dict[str, Any]]]:
    """Every call that names a session or an exchange in its body, with its path."""
    return [
        ("/api/chat", {"message": "what was said?", "conversationId": id}),
        ("/api/chat/tool-approval", {"runId": id, "toolCallId": "c", "action": "approve"}),
        ("/api/chat/resume", {"runId": id}),
    ]


async def told_by_body(client: httpx.AsyncClient, address: str, id: str) -> list[str]:
    """What these calls say of this id."""
    assert {path for path, _ in bodies(id)} == IN_BODIES
    told = [await client.post(address + path, json=body) for path, body in bodies(id)]
    assert [response.status_code for response in told] == [404] * len(told)
    return [without_names(response.text, id) for response in told]


async def snapshot(client: httpx.AsyncClient, owned: Owned) -> dict[str, Any]:
    """All that Alice has and that does not go on by itself."""
    kept = {
        kind: (
            (await client.get(f"/sessions/{owned.sessions[kind]}")).json(),
            await messages_of(client, owned.sessions[kind]),
            (await client.get(f"/exchanges/{owned.exchanges[kind]}")).json(),
        )
        for kind in ("ended", "waiting")
    }
    running = (await client.get(f"/exchanges/{owned.exchanges['running']}")).json()
    session = (await client.get(f"/sessions/{owned.sessions['running']}")).json()
    return {**kept, "running": (running["status"], session["title"] == NEW_TITLE, session["state"])}


async def test_no_call_tells_or_changes_anything_of_another_user(server: RunningServer, realm: SigningRealm) -> None:
    tried, owned = 0, Owned()
    assert len(CALLS) >= 16
    alice_token, mallory_token = realm.sign(), realm.sign(sub="mallory-id", preferred_username="mallory")
    async with (
        chat(server.address, token=alice_token, close_timeout=0.2) as alice_chats,
        rest(server, alice_token) as alice,
        rest(server, mallory_token) as mallory,
    ):
        await owned.fill(alice_chats)
        before = await snapshot(alice, owned)
        nobody = uuid4().hex
        for operation in CALLS:
            ids = owned.exchanges if "/exchanges/" in operation.path else owned.sessions
            nothing = without_names(await called(mallory, server.address, operation, nobody), nobody)
            for each in ids.values():
                said = without_names(await called(mallory, server.address, operation, each), each)
                assert said == nothing, "an id that somebody else has looks as one that nobody has"
                tried += 1
        nothing_told = await told_by_body(mallory, server.address, nobody)
        names = [f"name of {kind}" for kind in owned.sessions]
        for each in (*owned.sessions.values(), *owned.exchanges.values(), *names):
            assert await told_by_body(mallory, server.address, each) == nothing_told
            tried += len(nothing_told)
        own = (await mallory.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        for each in owned.exchanges.values():
            last = {"Last-Event-ID": f"{each}:1"}
            async with mallory.stream("GET", f"/sessions/{own}/events", headers=last) as stream:
                first = await anext(aiter(sse_events(stream))) if stream.status_code == 200 else {"type": "refused"}
            assert first["type"] in ("idle", "refused"), first
            tried += 1
        listed = [*(await mallory.get("/sessions", params={"q": SECRET})).json()["sessions"]]
        classic = (await mallory.get("/chatbot/sessions")).json()
        assert (listed, [session["id"] for session in classic]) == ([], [own])
        assert await snapshot(alice, owned) == before
    figure(f"{tried} calls with ids of another user: 0 told or changed anything")


def frames(session_id: str, exchange_id: str, interrupt_id: str, own: str) -> list[dict[str, Any]]:
    """Every frame that may name a session or an exchange, also with a session of one's own beside it."""
    answers = {"answers": {interrupt_id: "left"}}
    return [
        {"type": "ask", "message": "what was said?", "session_id": session_id},
        {"type": "ask", "message": "what was said?", "session_id": session_id, "agent_id": "echo"},
        *(
            {"type": kind, **target}
            for kind in ("follow", "stop")
            for target in (
                {"session_id": session_id},
                {"exchange_id": exchange_id},
                {"session_id": session_id, "exchange_id": exchange_id},
                {"session_id": own, "exchange_id": exchange_id},
            )
        ),
        {"type": "human_resume", "session_id": session_id, "exchange_id": exchange_id, "payload": answers},
        {"type": "human_resume", "session_id": own, "exchange_id": exchange_id, "payload": answers},
    ]


async def test_no_frame_tells_or_changes_anything_of_another_user(server: RunningServer, realm: SigningRealm) -> None:
    tried, owned, nobody = 0, Owned(), uuid4().hex
    alice_token, mallory_token = realm.sign(), realm.sign(sub="mallory-id", preferred_username="mallory")
    async with (
        chat(server.address, token=alice_token, close_timeout=0.2) as alice_chats,
        chat(server.address, token=mallory_token) as mallory,
        rest(server, alice_token) as alice,
    ):
        await owned.fill(alice_chats)
        before = await snapshot(alice, owned)
        own = (await mallory.ask("hello", agent_id="echo"))[0]["session_id"]
        await mallory.named(own)

        async def answered(frame: dict[str, Any], *ids: str) -> str:
            await mallory.send(frame)
            event = await mallory.receive()
            assert event["type"] == "error", event
            return without_names(event, *ids)

        nothing = [await answered(frame, nobody) for frame in frames(nobody, nobody, owned.interrupt_id, own)]
        for kind, exchange_id in owned.exchanges.items():
            session_id = owned.sessions.get(kind, nobody)
            told = [
                await answered(frame, session_id, exchange_id, nobody)
                for frame in frames(session_id, exchange_id, owned.interrupt_id, own)
            ]
            assert told == nothing, kind
            tried += len(told)
        # The names that Alice has given are hers: to Mallory they are new.
        for kind in owned.sessions:
            events = await mallory.ask("hello", agent_id="echo", client_exchange_id=f"name of {kind}")
            assert events[0]["type"] == "started" and events[0]["exchange_id"] not in owned.exchanges.values()
            assert SECRET not in json.dumps(events)
            await mallory.named(events[0]["session_id"])
            tried += 1
        await mallory.send({"type": "unfollow", "session_id": owned.sessions["running"]})
        await mallory.silent()
        assert await snapshot(alice, owned) == before
        # Her own socket still is told what happens: it was followed by nobody else, and unfollowed neither.
        await alice_chats.until("delta", exchange_id=owned.exchanges["running"])
    figure(f"{tried} frames with ids of another user: 0 told or changed anything")
