"""The REST calls on sessions, exchanges and agents: shapes, status codes, pages, search, ownership."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import wire_agents
from support.chat_client import PATIENCE_S, chat, check_exchange, text_of
from support.held_agents import Hold
from support.recorded_agents import eventually
from support.rest_client import error_of, messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
SESSION = {
    "id",
    "user_id",
    "agent_id",
    "title",
    "state",
    "pinned",
    "archived",
    "created_at",
    "updated_at",
    "next_rank",
    "message_count",
    "chat_profile",
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    shown = {"name": "Echo", "icon": "🗣", "description": "Says it back.", "tags": ["t"], "chat": {"starters": ["hi"]}}
    agents = [ENTRIES[0] | shown, *ENTRIES[1:], *wire_agents.ENTRIES]
    async with running_server(tmp_path, agents=agents) as server:
        yield server


async def opened(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await http.post("/sessions", json=body)
    assert response.status_code == 201, response.text
    session: dict[str, Any] = response.json()
    return session


def refused(response: httpx.Response, status: int, code: str, names: str = "") -> None:
    """The response has this status and an error of this code, whose words begin with the field's name."""
    error = error_of(response)
    assert (response.status_code, error["code"]) == (status, code)
    assert error["content"].startswith(names)
    assert response.headers["content-type"] == "application/json"


# Agents


async def test_the_agents_that_can_be_asked(server: RunningServer) -> None:
    async with rest(server) as http:
        response = await http.get("/agents")
        assert response.status_code == 200
        agents = {agent["id"]: agent for agent in response.json()["agents"]}
    assert list(response.json()) == ["agents", "chat_profiles"]
    assert agents["echo"] == {
        "id": "echo",
        "name": "Echo",
        "description": "Says it back.",
        "tags": ["t"],
        "icon": "🗣",
        "starters": ["hi"],
        "tools": [],
        "default": False,
    }
    assert agents["assistant"]["default"] is True
    assert "calculate" in agents["assistant"]["tools"]
    assert not {"disabled", "no-such-class"} & set(agents)


# Opening and reading


async def test_a_session_is_opened_and_read_back(server: RunningServer) -> None:
    async with rest(server) as http:
        session = await opened(http)
        assert set(session) == SESSION
        assert TIME.fullmatch(session["created_at"]) and session["updated_at"] == session["created_at"]
        assert (session["user_id"], session["agent_id"], session["state"]) == ("developer", "assistant", "active")
        assert (session["next_rank"], session["message_count"], session["chat_profile"]) == (0, 0, "default")
        response = await http.get(f"/sessions/{session['id']}")
        assert (response.status_code, response.json()) == (200, session)
        assert response.headers["cache-control"] == "no-store"
        named = await opened(http, agent_id="echo", title="  My title ", chat_profile=None)
        assert (named["agent_id"], named["title"], named["chat_profile"]) == ("echo", "My title", "default")
        empty = await http.post("/sessions")
        assert empty.status_code == 201


@pytest.mark.parametrize(
    ("body", "status", "code", "names"),
    [
        ({"agent_id": "nothing"}, 404, "agent_not_found", ""),
        ({"agent_id": "disabled"}, 404, "agent_not_found", ""),
        ({"agent_id": "no-such-class"}, 503, "agent_unavailable", ""),
        ({"agent_id": 5}, 400, "bad_frame", "agent_id:"),
        ({"title": ""}, 400, "bad_frame", "title:"),
        ({"title": "  "}, 400, "bad_frame", "title:"),
        ({"title": "t" * 201}, 400, "bad_frame", "title:"),
        ({"chat_profile": "brief"}, 400, "bad_frame", "chat_profile: there is no such profile"),
        ({"wizard": 1}, 400, "bad_frame", "wizard: unknown field"),
        ({"user_id": "bob"}, 400, "bad_frame", "user_id: unknown field"),
        ([], 400, "bad_frame", ""),
        ("x", 400, "bad_frame", ""),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_session_that_can_not_be_opened(
    shared_server: RunningServer, body: Any, status: int, code: str, names: str
) -> None:
    async with rest(shared_server, "dev:nobody") as http:
        refused(await http.post("/sessions", json=body), status, code, names)
        assert (await http.get("/sessions")).json() == {"sessions": []}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_body_that_is_no_json_is_refused(shared_server: RunningServer) -> None:
    async with rest(shared_server) as http:
        for content in (b"{", b"\xff", b"{'title': 1}", b"\x00"):
            refused(await http.post("/sessions", content=content), 400, "bad_frame")


# The list


async def test_the_list_is_the_callers_newest_first_in_pages(server: RunningServer) -> None:
    async with rest(server, "dev:alice") as alice, rest(server, "dev:bob") as bob:
        mine = [await opened(alice, title=f"Title {number}") for number in range(7)]
        await opened(bob)
        seen: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            response = await alice.get("/sessions", params={"limit": 3, **cursor})
            assert response.status_code == 200
            page = response.json()
            seen += page["sessions"]
            if "next_cursor" not in page:
                break
            assert len(page["sessions"]) == 3
            cursor = {"cursor": page["next_cursor"]}
        assert seen == mine[::-1]


async def test_an_exchange_brings_its_session_to_the_front(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        first, second = await opened(http), await opened(http)
        await client.ask("hello", agent_id="echo", session_id=first["id"])
        listed = (await http.get("/sessions")).json()["sessions"]
        assert [session["id"] for session in listed] == [first["id"], second["id"]]


async def test_the_list_is_filtered_by_agent_state_title_and_text(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        echo = await opened(http, agent_id="echo", title="About Größe 100%")
        other = await opened(http, title="Other")
        said = (await client.ask("repeat after me: the Xylophone_plays", agent_id="echo"))[-1]["session_id"]
        await http.post(f"/sessions/{other['id']}/complete")

        async def found(**params: str) -> set[str]:
            response = await http.get("/sessions", params=params)
            assert response.status_code == 200
            return {session["id"] for session in response.json()["sessions"]}

        assert await found(agent_id="echo") == {echo["id"], said}
        assert await found(agent_id="nothing") == set()
        assert await found(state="completed") == {other["id"]}
        assert await found(state="active") == {echo["id"], said}
        assert await found(q="größe") == await found(q="100%") == {echo["id"]}
        assert await found(q="xylophone_") == {said}
        assert await found(q="xylophone%") == await found(q="n_t a text") == set()
        assert await found(q="xylophone", agent_id="echo", state="active") == {said}
        everything = {echo["id"], other["id"], said}
        assert await found(q="", agent_id="", state="", cursor="") == await found() == everything


# One session


async def test_a_session_is_renamed(server: RunningServer) -> None:
    async with rest(server) as http:
        session = await opened(http)
        response = await http.patch(f"/sessions/{session['id']}", json={"title": " New ✓ "})
        assert (response.status_code, response.json()) == (200, session | {"title": "New ✓"})
        assert (await http.get(f"/sessions/{session['id']}")).json()["title"] == "New ✓"
        for body in ({}, {"title": None}, {"title": " "}, {"title": 5}, {"title": "x" * 201}):
            refused(await http.patch(f"/sessions/{session['id']}", json=body), 400, "bad_frame", "title:")
        wrong = await http.patch(f"/sessions/{session['id']}", json={"title": "x", "state": "completed"})
        refused(wrong, 400, "bad_frame", "state:")


async def test_messages_are_read_in_pages_by_rank(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        session_id = (await opened(http))["id"]
        assert (await http.get(f"/sessions/{session_id}/messages")).json() == {"messages": [], "next_rank": 0}
        for number in range(3):
            await client.ask(f"number {number}", agent_id="echo", session_id=session_id)
        everything = await messages_of(http, session_id)
        assert [text_of(message) for message in everything[::2]] == ["number 0", "number 1", "number 2"]
        for after_rank in range(-1, 7):
            response = await http.get(f"/sessions/{session_id}/messages", params={"after_rank": after_rank, "limit": 2})
            expected = [message for message in everything if message["rank"] > after_rank][:2]
            assert response.json() == {"messages": expected, "next_rank": 6}
        for params in (
            {"after_rank": "-2"},
            {"after_rank": "x"},
            {"limit": "0"},
            {"after_rank": ""},
        ):
            response = await http.get(f"/sessions/{session_id}/messages", params=params)
            refused(response, 400, "bad_frame", next(iter(params)))


async def test_an_exchange_is_read_while_it_runs_and_afterwards(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        await client.send({"message": "hang after 5 tokens", "client_exchange_id": "x1"})
        started = await client.until("started")
        path = f"/exchanges/{started['exchange_id']}"
        running = (await http.get(path)).json()
        of_all = {"id", "session_id", "agent_id", "status", "client_exchange_id", "started_at", "usage", "kpi"}
        assert set(running) == of_all
        assert (running["status"], running["client_exchange_id"]) == ("running", "x1")
        await client.send({"type": "stop", "session_id": started["session_id"]})
        await client.until("final")
        ended = (await http.get(path)).json()
        assert ended["checkpoint"]["kind"] == "final_result"
        changed = {name: ended[name] for name in ("ended_at", "usage", "checkpoint", "kpi")}
        assert ended == running | {"status": "stopped"} | changed
        assert TIME.fullmatch(ended["ended_at"]) and ended["ended_at"] > ended["started_at"]
        failed = (await client.ask("hello", agent_id="raising"))[-1]
        record = (await http.get(f"/exchanges/{failed['exchange_id']}")).json()
        assert (record["status"], record["error"], record["usage"]) == ("error", failed["error"], failed["usage"])


async def test_a_session_is_completed_for_good(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        await client.send({"message": "hang after 5 tokens"})
        started = await client.until("started")
        path = f"/sessions/{started['session_id']}"
        response = await http.post(f"{path}/complete")
        completed = response.json()
        assert response.status_code == 200
        assert completed == {"id": started["session_id"], "state": "completed", "ended_at": completed["ended_at"]}
        assert TIME.fullmatch(completed["ended_at"])
        assert (await http.get(f"/exchanges/{started['exchange_id']}")).json()["status"] == "stopped"
        assert (await client.until("final"))["status"] == "stopped"
        assert (await http.post(f"{path}/complete", json={})).json() == completed
        session = (await http.get(path)).json()
        assert (session["state"], session["ended_at"]) == ("completed", completed["ended_at"])
        assert "active_exchange_id" not in session
        refused(await http.post(f"{path}/messages", json={"content": "hello"}), 409, "session_completed")
        assert (await http.post(f"{path}/cancel")).json() == {"cancelled": False}


async def test_completing_twice_at_once_answers_both_when_the_exchange_has_ended(
    server: RunningServer, hold: Hold
) -> None:
    async with rest(server) as http, chat(server.address) as client:
        # A tool that goes on after its cancellation, so that the end takes a moment.
        await client.send({"message": "call work()", "agent_id": "unmoved"})
        started = await client.until("started")
        await eventually(lambda: hold.held)

        async def complete() -> tuple[Any, Any]:
            response = await http.post(f"/sessions/{started['session_id']}/complete")
            exchange = await http.get(f"/exchanges/{started['exchange_id']}")
            return response.json()["state"], exchange.json()["status"]

        first = asyncio.create_task(complete())
        while (await http.get(f"/sessions/{started['session_id']}")).json()["state"] == "active":
            await asyncio.sleep(0)
        assert await complete() == await first == ("completed", "stopped")


async def test_what_runs_is_cancelled_and_the_session_goes_on(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        await client.send({"message": "hang after 5 tokens"})
        started = await client.until("started")
        path = f"/sessions/{started['session_id']}"
        response = await http.post(f"{path}/cancel")
        assert (response.status_code, response.json()) == (200, {"cancelled": True})
        assert (await http.get(f"/exchanges/{started['exchange_id']}")).json()["status"] == "stopped"
        assert (await http.post(f"{path}/cancel")).json() == {"cancelled": False}
        await client.until("final")
        check_exchange(await client.ask("hello", agent_id="echo", session_id=started["session_id"]))
        refused(await http.post(f"{path}/cancel", json={"wizard": 1}), 400, "bad_frame", "wizard:")


async def test_a_deleted_session_is_gone_with_all_that_was_its_own(server: RunningServer) -> None:
    wire_agents.closed.clear()
    async with rest(server) as http, chat(server.address) as client:
        kept = (await client.ask("hello", agent_id="recorded"))[-1]["session_id"]
        session_id = (await client.ask("hello", agent_id="recorded"))[-1]["session_id"]
        await client.send({"message": "hang after 5 tokens", "session_id": session_id, "agent_id": "assistant"})
        started = await client.until("started")
        response = await http.delete(f"/sessions/{session_id}")
        assert (response.status_code, response.content) == (204, b"")
        assert (await client.until("final"))["status"] == "stopped"
        assert wire_agents.closed == [session_id]
        for method, path in [
            ("GET", f"/sessions/{session_id}"),
            ("PATCH", f"/sessions/{session_id}"),
            ("DELETE", f"/sessions/{session_id}"),
            ("GET", f"/sessions/{session_id}/messages"),
            ("POST", f"/sessions/{session_id}/messages"),
            ("POST", f"/sessions/{session_id}/complete"),
            ("POST", f"/sessions/{session_id}/cancel"),
        ]:
            body = {"PATCH": {"title": "x"}, "POST": {"content": "x"} if path.endswith("messages") else {}}.get(method)
            refused(await http.request(method, path, json=body), 404, "session_not_found")
        refused(await http.get(f"/exchanges/{started['exchange_id']}"), 404, "exchange_not_found")
        assert [session["id"] for session in (await http.get("/sessions")).json()["sessions"]] == [kept]
        assert len(await messages_of(http, kept)) == 2


async def test_deleting_during_a_stubborn_tool_closes_the_agent_and_removes_everything(
    server: RunningServer, hold: Hold
) -> None:
    async with rest(server) as http, chat(server.address) as client:
        await client.send({"message": "call work()", "agent_id": "unmoved"})
        started = await client.until("started")
        await eventually(lambda: hold.held)
        assert (await http.delete(f"/sessions/{started['session_id']}")).status_code == 204
        refused(await http.get(f"/exchanges/{started['exchange_id']}"), 404, "exchange_not_found")
        await client.send({"type": "follow", "exchange_id": started["exchange_id"]})
        assert (await client.until("error"))["code"] == "exchange_not_found"
        hold.released.set()
        await eventually(lambda: hold.gone)
        await asyncio.sleep(0.1)
        await client.send({"type": "follow", "exchange_id": started["exchange_id"]})
        assert (await client.until("error"))["code"] == "exchange_not_found"


# Whose it is


async def test_every_call_on_another_users_session_finds_nothing(server: RunningServer) -> None:
    async with (
        rest(server, "dev:alice") as alice,
        rest(server, "dev:bob") as bob,
        chat(server.address, token="dev:alice") as client,
    ):
        final = (await client.ask("hello", agent_id="echo"))[-1]
        session_id = final["session_id"]
        await client.named(session_id)
        before = (await alice.get(f"/sessions/{session_id}")).json()
        calls: list[tuple[str, str, Any]] = [
            ("GET", f"/sessions/{session_id}", None),
            ("PATCH", f"/sessions/{session_id}", {"title": "Bob's"}),
            ("DELETE", f"/sessions/{session_id}", None),
            ("GET", f"/sessions/{session_id}/messages", None),
            ("POST", f"/sessions/{session_id}/messages", {"content": "from Bob"}),
            ("POST", f"/sessions/{session_id}/complete", None),
            ("POST", f"/sessions/{session_id}/cancel", None),
        ]
        for method, path, body in calls:
            his = await bob.request(method, path, json=body)
            nobodys = await bob.request(method, path.replace(session_id, "nothing"), json=body)
            refused(his, 404, "session_not_found")
            assert error_of(his)["content"] == error_of(nobodys)["content"]
        refused(await bob.get(f"/exchanges/{final['exchange_id']}"), 404, "exchange_not_found")
        assert (await bob.get("/sessions")).json() == {"sessions": []}
        assert (await bob.get("/sessions", params={"q": "hello"})).json() == {"sessions": []}
        assert (await alice.get(f"/sessions/{session_id}")).json() == before


@pytest.mark.parametrize("session_id", ["nothing", "s" * 2000, "%00", "ä", "..%2F..", "' OR 1=1 --"])
@pytest.mark.asyncio(loop_scope="module")
async def test_ids_of_any_form_find_nothing(shared_server: RunningServer, session_id: str) -> None:
    async with rest(shared_server) as http, asyncio.timeout(PATIENCE_S):
        for method, suffix, body in [
            ("GET", "", None),
            ("GET", "/messages", None),
            ("POST", "/messages", {"content": "hello"}),
            ("POST", "/cancel", None),
        ]:
            response = await http.request(method, f"/sessions/{session_id}{suffix}", json=body)
            assert response.status_code == 404, response.text
            assert error_of(response)["code"] in ("session_not_found", "not_found")
