"""Settings by scope over every door: who may name one, what applies, and what a session's owner is shown of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.chat_client import chat
from support.hostile_modules import entry
from support.rest_client import error_of, rest, sse_events
from support.running_server import ASSISTANT, RunningServer, running_server
from support.tool_sessions import tool_client

POLICIES = {
    "organisations": {"acme": {"limits": {"max_messages": 9}, "prompts": {"guidance": "Be brief."}}},
    "classes": {"staff": {"access": {"roles": ["teacher"]}}},
    "assignments": {
        "essay": {
            "chat_profile": "compact",
            "limits": {"max_messages": 1},
            "prompts": {"instructions": "An essay about Hannibal."},
        },
        "later": {"available_at": "2999-01-01T00:00:00Z"},
        "past": {"closes_at": "2000-01-01T00:00:00Z"},
    },
}
BRIEF = {**ASSISTANT, "id": "brief", "default": False, "session_limits": {"max_messages": 5}}


@pytest.fixture
async def scoped(tmp_path: Path) -> AsyncIterator[RunningServer]:
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(POLICIES))
    developer = {"scope": {"organisation": "acme"}}
    settings = {"policies": {"file": str(file)}, "auth": {"developer": developer}}
    async with running_server(tmp_path, agents=[BRIEF], settings=settings) as server:
        yield server


async def test_a_scope_that_the_user_may_not_use_is_refused_at_every_door(scoped: RunningServer) -> None:
    async with rest(scoped) as http:
        for scope in ({"class": "staff"}, {"class": "unknown"}):
            for subprotocols in (["chat.v2"], None):
                async with chat(scoped.address, subprotocols=subprotocols) as client:
                    for mode in ("chat", "query"):
                        await client.send({"message": "hello", "scope": scope, "mode": mode})
                        assert (await client.until("error"))["code"] == "forbidden"
            for path, body in (("/sessions", {}), ("/chatbot/session", {}), ("/query", {"content": "hello"})):
                response = await http.post(path, json={**body, "scope": scope})
                assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
        response = await http.post("/sessions", json={"scope": {"planet": "mars"}})
        assert (response.status_code, error_of(response)["code"]) == (400, "bad_frame")


@pytest.mark.parametrize(("assignment", "code"), [("later", "assignment_not_open"), ("past", "assignment_closed")])
async def test_an_assignment_that_is_not_open_is_refused_at_every_door(
    scoped: RunningServer, assignment: str, code: str
) -> None:
    scope = {"assignment": assignment}
    async with rest(scoped) as http, tool_client(scoped) as tools, chat(scoped.address) as client:
        for mode in ("chat", "query"):
            await client.send({"message": "hello", "scope": scope, "mode": mode})
            assert (await client.until("error"))["code"] == code
        for path, body in (("/sessions", {}), ("/chatbot/session", {}), ("/query", {"content": "hello"})):
            response = await http.post(path, json={**body, "scope": scope})
            assert (response.status_code, error_of(response)["code"]) == (403, code)
            assert ("retry_after_s" in error_of(response)) == (assignment == "later")
        response = await tools.post("/sessions", json={"toolId": "assistant", "assignmentId": assignment})
        assert (response.status_code, response.json()["code"], response.json()["category"]) == (
            403,
            code,
            "authorization",
        )


async def test_what_applies_comes_from_the_scope_of_the_session(scoped: RunningServer) -> None:
    async with chat(scoped.address) as client, rest(scoped) as http:
        await client.send({"message": "hello", "scope": {"assignment": "essay"}})
        final = await client.until("final")
        assert (final["status"], final["session"]["chat_profile"]) == ("ok", "compact")
        prompt = (await http.get(f"/admin/exchanges/{final['exchange_id']}/prompt")).json()
        assert {"assignment:essay", "organisation:acme"} <= set(sources_in(prompt))
        await client.send({"message": "again", "session_id": final["session_id"]})
        refused = await client.until("error")
        assert refused["code"] == "session_completed" and "max_messages of 1" in refused["content"]
        shown = (await http.get(f"/sessions/{final['session_id']}")).json()
        assert shown["state"] == "completed"


def sources_in(value: Any) -> list[str]:
    """The sources of the sections of a prompt, wherever they are in the answer."""
    if isinstance(value, dict):
        own = [value["source"]] if isinstance(value.get("source"), str) else []
        return own + [source for inner in value.values() for source in sources_in(inner)]
    return [source for inner in value for source in sources_in(inner)] if isinstance(value, list) else []


async def test_the_owner_sees_each_value_and_where_it_comes_from(scoped: RunningServer) -> None:
    async with rest(scoped) as http, rest(scoped, token="dev:eve") as others:
        body = {"agent_id": "brief", "scope": {"assignment": "essay"}}
        session = (await http.post("/sessions", json=body)).json()
        config = (await http.get(f"/sessions/{session['id']}/config")).json()
        assert (config["agent_id"], config["scope"]) == ("brief", {"organisation": "acme", "assignment": "essay"})
        most = config["settings"]["limits.max_messages"]
        levels = [(level["level"], level.get("id"), level["value"]) for level in most["levels"]]
        assert levels == [
            ("server", None, None),
            ("organisation", "acme", 9),
            ("agent", "brief", 5),
            ("assignment", "essay", 1),
        ]
        lines = Path(scoped.data.parent, "policies.yaml").read_text().splitlines()
        assert most["source"] == most["levels"][-1] and most["value"] == 1
        assert most["source"]["file"] == "policies.yaml" and "max_messages: 1" in lines[most["source"]["line"] - 1]
        assert most["levels"][2]["file"] == "agents_catalog.yaml"
        assert config["settings"]["limits.run_s"]["source"]["level"] == "server"
        assert (await others.get(f"/sessions/{session['id']}/config")).status_code == 404


@pytest.mark.parametrize(
    ("profile", "level"), [("long_context", "session"), ("compact", "assignment"), (None, "assignment")]
)
async def test_the_profile_that_a_session_keeps_is_shown(
    scoped: RunningServer, profile: str | None, level: str
) -> None:
    async with rest(scoped) as http:
        body = {"scope": {"assignment": "essay"}, "chat_profile": profile}
        session = (await http.post("/sessions", json=body)).json()
        shown = (await http.get(f"/sessions/{session['id']}/config")).json()["settings"]["chat_profile"]
        assert (shown["value"], shown["source"]["level"]) == (profile or "compact", level)
        assert shown["value"] == session["chat_profile"]


async def test_a_module_that_is_off_is_switched_on_where_a_policy_says_so(tmp_path: Path) -> None:
    modules, policies = tmp_path / "modules.yaml", tmp_path / "policies.yaml"
    off = entry("off", enabled=False, settings={"before": "block_word"})
    broken = {**off, "name": "broken", "class_path": "no.such:Module"}
    modules.write_text(yaml.safe_dump({"modules": [off, broken]}))
    policies.write_text(yaml.safe_dump({"assignments": {"strict": {"modules": {"off": True, "broken": False}}}}))
    settings = {"policies": {"file": str(policies)}, "modules": {"file": str(modules)}}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address) as client:
        for mode in ("chat", "query"):
            for scope, status in (({}, "ok"), ({"assignment": "strict"}, "blocked")):
                await client.send({"message": "a secret", "scope": scope, "mode": mode})
                assert (await client.until("final"))["status"] == status


async def test_a_query_over_the_classic_form_is_answered_and_leaves_nothing(scoped: RunningServer) -> None:
    async with chat(scoped.address, subprotocols=None) as client, rest(scoped) as http:
        await client.send({"message": "hello", "mode": "query", "scope": {"assignment": "essay"}})
        final = await client.until("final")
        assert {message["session_id"] for message in final["messages"]} == {None}
        assert (await http.get("/sessions")).json()["sessions"] == []
        await client.send({"message": "hello", "mode": "query", "session_id": "s"})
        assert (await client.until("error"))["code"] == "bad_frame"


async def test_a_query_over_http_is_answered_and_leaves_nothing(scoped: RunningServer) -> None:
    async with rest(scoped) as http:
        body = {"content": "hello", "agent_id": "brief", "scope": {"assignment": "essay"}}
        async with http.stream("POST", "/query", json=body) as response:
            events = [event async for event in sse_events(response)]
        assert (events[0]["type"], events[-1]["type"], events[-1]["status"]) == ("started", "final", "ok")
        assert events[-1]["session"] is None and events[-1]["messages"][0]["rank"] == 0
        assert (await http.get("/sessions")).json()["sessions"] == []
        assert (await http.post("/query", json={"content": ""})).status_code == 400
        assert (await http.post("/query", json={"content": "x", "session_id": "s"})).status_code == 400


async def test_a_query_over_http_stops_when_its_client_goes(scoped: RunningServer) -> None:
    async with rest(scoped) as http:
        slow = {"content": "Count down slowly from 20", "client_exchange_id": "slow"}
        async with http.stream("POST", "/query", json=slow) as response:
            first = await anext(sse_events(response))
        assert first["type"] == "started"
        totals: dict[str, Any] = {}
        while not totals.get("stopped"):
            summary = (await http.get("/metrics/chatbot/summary", params=YEARS)).json()
            totals = {one["status"]: one for one in all_with(summary, "status")}


YEARS = {"start": "2000-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"}


def all_with(value: Any, key: str) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value] if key in value else [found for inner in value.values() for found in all_with(inner, key)]
    return [found for inner in value for found in all_with(inner, key)] if isinstance(value, list) else []


@pytest.mark.parametrize("subprotocols", [["chat.v2"], None])
async def test_quit_ends_a_session_at_every_door(scoped: RunningServer, subprotocols: list[str] | None) -> None:
    async with chat(scoped.address, subprotocols=subprotocols) as client, rest(scoped) as http:
        await client.send({"message": "Quit"})
        final = await client.until("final")
        session_id = final["messages"][0]["session_id"]
        assert (await http.get(f"/sessions/{session_id}")).json()["state"] == "completed"
        session = (await http.post("/sessions")).json()
        async with http.stream("POST", f"/sessions/{session['id']}/messages", json={"content": "quit"}) as response:
            events = [event async for event in sse_events(response)]
        assert (events[-1]["status"], events[-1]["session"]["state"]) == ("ok", "completed")
