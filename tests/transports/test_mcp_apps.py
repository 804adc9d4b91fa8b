"""The UI resources of MCP servers through the whole server: kept with their session, and never active."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from services.mcp_raw import raw_server
from support.chat_client import chat
from support.hostile_modules import entry as modules_entry
from support.mcp_agents import MODULE
from support.rest_client import error_of, messages_of, rest
from support.running_server import RunningServer, running_server

from agentic_backend.exchange.run import kept_ui_resources

pytestmark = pytest.mark.asyncio(loop_scope="module")

URI = "ui://look/app.html"
HTML = "<!doctype html><script>alert(1)</script>"
LOOK = {"name": "look", "_meta": {"ui": {"resourceUri": URI}}}
RESULT = {"content": [{"type": "text", "text": "seen"}]}
RESOURCE = {"contents": [{"uri": URI, "mimeType": "text/html;profile=mcp-app", "text": HTML}]}
SERVERS = {"raw": raw_server([LOOK], result=RESULT, resource=RESOURCE)}
AGENT = {"id": "user", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "raw"}]}}


@pytest_asyncio.fixture(loop_scope="module")
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=[AGENT], settings={"mcp_servers": SERVERS}) as server:
        yield server


async def shown(
    server: RunningServer, user: str = "dev:ann", agent_id: str = "user", **fields: Any
) -> tuple[str, list[dict[str, Any]]]:
    """The session, and the parts in which results are shown."""
    async with chat(server.address, token=user) as client:
        end = (await client.ask("call look()", agent_id=agent_id, **fields))[-1]
    parts = [part for message in end["messages"] for part in message["parts"]]
    return end.get("session_id"), [part["data"] for part in parts if part["type"] == "custom"]


async def test_a_session_keeps_a_resource_once_until_it_is_deleted(server: RunningServer) -> None:
    session_id, [first] = await shown(server)
    _, [second] = await shown(server, session_id=session_id)
    _, [other] = await shown(server)
    assert first["resource"] == second["resource"] != other["resource"]
    path = first["resource"].removeprefix("/agentic/v1")
    async with rest(server, "dev:ann") as ann, rest(server, "dev:bob") as bob:
        found = await ann.get(path)
        assert found.text == HTML
        # A browser that is led there shows no document.
        assert found.headers["content-type"] == "text/plain; charset=utf-8"
        assert found.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert (await bob.get(path)).status_code == 404
        refused = await ann.post(
            f"/sessions/{session_id}/messages", json={"content": "look", "attachments": [path.split("/")[-1]]}
        )
        assert refused.json()["error"]["code"] == "attachment_not_found"
        assert (await ann.delete(f"/sessions/{session_id}")).status_code == 204
        assert (await ann.get(path)).status_code == 404
        assert (await ann.get(other["resource"].removeprefix("/agentic/v1"))).status_code == 200


async def test_a_query_shows_results_without(server: RunningServer) -> None:
    assert await shown(server, mode="query") == (None, [])


async def test_what_there_is_no_room_for_is_shown_without(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_ui_resources, "MOST", 1)
    session_id, [first] = await shown(server)
    # It is there already.
    assert (await shown(server, session_id=session_id))[1][0]["resource"] == first["resource"]
    monkeypatch.setattr(kept_ui_resources, "MOST", 0)
    assert (await shown(server))[1] == []


async def test_who_is_given_a_link_is_told_the_words(server: RunningServer) -> None:
    session_id, _ = await shown(server)
    async with rest(server, "dev:ann") as ann, rest(server, "dev:bob") as bob:
        link = (await ann.post(f"/sessions/{session_id}/shares", json={})).json()
        read = (await bob.get(f"/shares/{link['secret']}")).json()
    parts = [part for message in read["messages"] for part in message["parts"]]
    assert {"type": "text", "text": "look"} in parts
    assert "custom" not in [part["type"] for part in parts]


PAGES = [
    LOOK,
    {"name": "count", "_meta": {"ui": {"visibility": ["app"]}}},
    {"name": "heard", "_meta": {"ui": {"visibility": ["model"]}}},
]
CALLING = {
    "raw": raw_server(PAGES, result=RESULT | {"_meta": {"own": 1}}, resource=RESOURCE),
    "other": raw_server([{"name": "process_id"}], result=RESULT),
}


def entry(agent_id: str, *, raw: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    uses = [{"id": "raw", **(raw or {})}, {"id": "other"}]
    return {"id": agent_id, "class_path": f"{MODULE}:Approving", "tuning": {"mcp_servers": uses}, **more}


CALLERS = [
    entry("user"),
    {"id": "desk", "type": "leader", "crew": ["gated"]},
    entry("gated", require_approval=["raw/count"]),
    entry("picky", raw={"tools": ["look"]}),
    entry("needing", permissions={"raw/count": ["counts:read:all"]}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calling(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    settings = {"mcp_servers": CALLING, "permissions": {"roles": {"*": ["looks:*"]}}}
    async with running_server(tmp_path_factory.mktemp("calling"), agents=CALLERS, settings=settings) as server:
        yield server


async def calls(
    server: RunningServer, agent_id: str, tool: str = "count", *, user: str = "dev:ann", rank: int = 2, **body: Any
) -> httpx.Response:
    """The answer to a call for the document that a new session of ann's with this agent shows."""
    session_id, _ = await shown(server, agent_id=agent_id)
    async with rest(server, user) as client:
        return await client.post(f"/sessions/{session_id}/messages/{rank}/app-calls", json={"tool": tool, **body})


async def test_a_document_calls_the_tools_of_its_server_in_the_agents_session(calling: RunningServer) -> None:
    session_id, _ = await shown(calling)
    async with rest(calling, "dev:ann") as ann:
        for number in "12":
            found = await ann.post(f"/sessions/{session_id}/messages/2/app-calls", json={"tool": "count"})
            assert found.json() == {"result": {"content": [{"type": "text", "text": number}], "isError": False}}
        looked = await ann.post(f"/sessions/{session_id}/messages/2/app-calls", json={"tool": "look"})
        assert looked.json()["result"]["_meta"] == {"own": 1}
        # One session with the server: the agent's.
        assert len(await messages_of(ann, session_id)) == 4, "a call is no message"


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "a tool for models alone": ({"tool": "heard"}, 404, "not_found"),
    "a tool of another server": ({"tool": "process_id"}, 404, "not_found"),
    "no tool": ({"tool": "nothing"}, 404, "not_found"),
    "a tool that the entry leaves out": ({"agent_id": "picky"}, 404, "not_found"),
    "a tool that the user may not use": ({"agent_id": "needing"}, 403, "forbidden"),
    "another's session": ({"user": "dev:bob"}, 404, "session_not_found"),
    "a message without a document": ({"rank": 1}, 404, "not_found"),
    "no message": ({"rank": 99}, 404, "not_found"),
    "arguments that nobody keeps": ({"arguments": {"large": 2**70}}, 400, "bad_frame"),
    "what nobody has approved of": ({"agent_id": "gated"}, 409, "approval_required"),
}


@pytest.mark.parametrize(("call", "status", "code"), REFUSED.values(), ids=REFUSED)
async def test_what_a_document_may_not_call_is_refused(
    calling: RunningServer, call: dict[str, Any], status: int, code: str
) -> None:
    answer = await calls(calling, **{"agent_id": "user", **call})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_call_that_needs_an_approval_waits_for_one_of_its_arguments(calling: RunningServer) -> None:
    session_id, _ = await shown(calling, agent_id="gated")
    path, call = f"/sessions/{session_id}/messages/2/app-calls", {"tool": "count", "arguments": {"by": 1}}
    async with rest(calling, "dev:ann") as ann:
        asked = error_of(await ann.post(path, json=call))
        assert (asked["code"], asked["approval"]["title"]) == ("approval_required", "count")
        assert asked["approval"]["data"] == {"tool": "raw_count", "arguments": {"by": 1}}
        consent = {"approval": asked["approval"]["sha256"]}
        other = {**call, "arguments": {"by": 2}}
        assert error_of(await ann.post(path, json=other, headers=consent))["code"] == "approval_required"
        approved = (await ann.post(path, json=call, headers=consent)).json()
        # None of the others has run.
        assert approved["result"]["content"] == [{"type": "text", "text": "1"}]
        exchange_id = (await messages_of(ann, session_id))[2]["exchange_id"]
        trust = (await ann.get(f"/exchanges/{exchange_id}/trust")).json()
    # It came after the answer.
    assert [tool["name"] for tool in trust["tools"]] == ["look"]
    [called] = [call for call in await recorded(calling, session_id) if call["name"] != "look"]
    assert (called["name"], called["args"], called["state"]) == ("raw_count", {"by": 1}, "success")
    assert (called["exchange_id"], called["approved_by"]) == (exchange_id, "ann")


async def test_an_expert_of_a_crew_shows_and_is_asked_by_its_own_entry(calling: RunningServer) -> None:
    async with chat(calling.address, token="dev:ann") as client:
        end = (await client.ask('use the tool ask_gated with {"question": "call look()"}', agent_id="desk"))[-1]
    [message] = [one for one in end["messages"] if "custom" in [part["type"] for part in one["parts"]]]
    path = f"/sessions/{end['session_id']}/messages/{message['rank']}/app-calls"
    async with rest(calling, "dev:ann") as ann:
        assert (await ann.post(path, json={"tool": "look"})).status_code == 200
        assert error_of(await ann.post(path, json={"tool": "count"}))["code"] == "approval_required"


async def recorded(server: RunningServer, session_id: str) -> list[dict[str, Any]]:
    """The calls of tools that admins see."""
    async with rest(server) as admin:
        found: list[dict[str, Any]] = (await admin.get(f"/admin/sessions/{session_id}/audit")).json()["tool_calls"]
    return found


async def test_calls_that_no_policy_means_are_recorded_only_if_models_may_make_them(calling: RunningServer) -> None:
    session_id, _ = await shown(calling)
    async with rest(calling, "dev:ann") as ann:
        for tool in ("count", "look"):
            await ann.post(f"/sessions/{session_id}/messages/2/app-calls", json={"tool": tool})
    assert [call["name"] for call in await recorded(calling, session_id)] == ["look", "look"]


async def test_a_refused_call_is_recorded(calling: RunningServer) -> None:
    session_id, _ = await shown(calling, agent_id="needing")
    async with rest(calling, "dev:ann") as ann:
        await ann.post(f"/sessions/{session_id}/messages/2/app-calls", json={"tool": "count"})
    assert [call["state"] for call in await recorded(calling, session_id) if call["name"] == "raw_count"] == [
        "forbidden"
    ]


async def tells(server: RunningServer, *, user: str = "dev:ann", rank: int = 2, **told: Any) -> httpx.Response:
    """The answer to what the document that a new session of ann's shows tells models."""
    session_id, _ = await shown(server)
    async with rest(server, user) as client:
        return await client.post(f"/sessions/{session_id}/messages/{rank}/app-context", content=json.dumps(told))


async def test_what_a_document_tells_goes_along_with_one_ask_as_a_file(server: RunningServer) -> None:
    session_id, _ = await shown(server)
    path = f"/sessions/{session_id}/messages/2"
    async with rest(server, "dev:ann") as ann:
        told = {"texts": ["Two are chosen.", "```"], "structured_content": {"chosen": [1, 2]}}
        answer = await ann.post(f"{path}/app-context", json=told)
        assert answer.status_code == 201
        file = answer.json()
        content = (await ann.get(f"/attachments/{file['id']}")).text
        assert (file["name"], file["mime"], file["text_chars"]) == ("From look (raw).txt", "text/plain", len(content))
        assert content == (
            "The document in which the MCP server 'raw' shows the results of its tool 'look' tells this, not the user:"
            '\n\nTwo are chosen.\n\n```\n\n```json\n{\n "chosen": [\n  1,\n  2\n ]\n}\n```'
        )
        for attachments in [file["id"]], []:
            async with chat(server.address, token="dev:ann") as client:
                await client.ask("What is chosen?", session_id=session_id, attachments=attachments)
        asked = [one["parts"] for one in await messages_of(ann, session_id) if one["role"] == "user"]
        assert [[part["type"] for part in parts] for parts in asked] == [["text"], ["text", "file"], ["text"]]
        assert (await ann.delete(f"/sessions/{session_id}")).status_code == 204
        assert (await ann.get(f"/attachments/{file['id']}")).status_code == 404


UNTOLD: dict[str, tuple[dict[str, Any], int, str]] = {
    "nothing": ({"texts": []}, 400, "bad_frame"),
    "an empty text": ({"texts": [""]}, 400, "bad_frame"),
    "no text": ({"texts": [7]}, 400, "bad_frame"),
    "half a character": ({"texts": ["\ud800"]}, 400, "bad_frame"),
    "too many": ({"texts": ["a"] * 65}, 400, "bad_frame"),
    "too long": ({"texts": ["a" * 8_001] * 2}, 413, "message_too_large"),
    "too long as it is written": ({"structured_content": {"a": [[]] * 5_000}}, 413, "message_too_large"),
    "a number that nobody keeps": ({"structured_content": {"large": 2**70}}, 400, "bad_frame"),
    "for another's session": ({"texts": ["a"], "user": "dev:bob"}, 404, "session_not_found"),
    "for a message without a document": ({"texts": ["a"], "rank": 1}, 404, "not_found"),
}


@pytest.mark.parametrize(("told", "status", "code"), UNTOLD.values(), ids=UNTOLD)
async def test_what_can_not_be_told_is_refused(
    calling: RunningServer, told: dict[str, Any], status: int, code: str
) -> None:
    answer = await tells(calling, **told)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_modules_look_at_what_a_document_tells_as_at_a_result(tmp_path: Path) -> None:
    looking = [
        modules_entry("redacting", settings={"tool": "redact"}),
        modules_entry("blocking", settings={"tool": "block_word", "word": "forbidden"}),
    ]
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": looking}))
    settings = {"mcp_servers": SERVERS, "modules": {"file": str(file)}}
    async with running_server(tmp_path, agents=[AGENT], settings=settings) as server:
        kept = (await tells(server, texts=["a secret", "told"], structured_content={"of": "secret"})).json()
        async with rest(server, "dev:ann") as ann:
            content = (await ann.get(f"/attachments/{kept['id']}")).text
        assert "a ***" in content and '"***"' in content and "secret" not in content
        refused = await tells(server, texts=["what is forbidden"])
        assert error_of(refused)["code"] == "forbidden" and "That is not said here." in error_of(refused)["content"]
