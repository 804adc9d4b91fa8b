"""UI resources of MCP servers: what is taken of what they say, and what is shown of it."""

import base64
import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from services.mcp_everything import app_program
from services.mcp_raw import raw_server
from support.mcp_agents import ToolUser, built, call, tool_user, tools_of

from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp.apps import kept_resources

URI = "ui://look/app.html"
HTML = "<!doctype html><p>Look</p>"
RESULT = {"content": [{"type": "text", "text": "seen"}], "structuredContent": {"seen": 1}, "_meta": {"own": 2}}
MIME = "text/html;profile=mcp-app"


def looking(meta: Any = None, *, result: dict[str, Any] | None = None, **content: Any) -> dict[str, Any]:
    """The settings of a server whose tool `look` says `meta`, and whose resource is this `content`."""
    said = {"ui": {"resourceUri": URI}} if meta is None else meta
    resource = {"contents": [{"uri": URI, "mimeType": MIME, "text": HTML, **content}]}
    return raw_server([{"name": "look", "title": "A look", "_meta": said}], result=result or RESULT, resource=resource)


def keeping(agent: ToolUser) -> list[str]:
    """Let the agent's run keep UI resources; returns where it does."""
    kept: list[str] = []

    async def keep(html: str) -> str:
        kept.append(html)
        return f"/kept/{len(kept)}"

    agent.runtime_context = replace(agent.runtime_context, keep_ui_resource=keep)
    return kept


async def shown(agent: ToolUser, **args: Any) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = ((await call(agent, "look", **args)).artifact or {}).get("parts", [])
    return parts


async def test_a_result_is_shown_in_the_resource_of_its_tool() -> None:
    async with built(tool_user({"raw": looking(_meta={"ui": {"prefersBorder": False}})})) as agent:
        kept = keeping(agent)
        [part] = await shown(agent, at="sea")
    assert kept == [HTML]
    assert (part["type"], part["kind"]) == ("custom", "mcp:app")
    assert part["data"] == {
        "server": "raw",
        "agent": "tool-user",
        "tool": "look",
        "title": "A look",
        "resource": "/kept/1",
        "prefers_border": False,
        "input": {"at": "sea"},
        "result": RESULT | {"isError": False},
    }
    # Who does not show it loses nothing.
    assert part["text"] == 'A look\n\n```json\n{\n  "seen": 1\n}\n```'


async def test_a_resource_may_come_as_a_blob() -> None:
    blob = base64.b64encode("<p>Ünder</p>".encode()).decode()
    async with built(tool_user({"raw": looking(text=None, blob=blob)})) as agent:
        kept = keeping(agent)
        assert len(await shown(agent)) == 1
    assert kept == ["<p>Ünder</p>"]


async def test_what_a_resource_declares_is_told_once_with_what_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    meta = {
        "csp": {
            "connectDomains": ["https://API.example.org/", "https://other.example.org", "https://*", "'unsafe-eval'"],
            "resourceDomains": ["https://*.cdn.example.org"],
            "scriptDomains": ["https://odd.example.org"],
        },
        "permissions": {"camera": {}, "usb": {}},
        "domain": "own.example.org",
    }
    allowed = {"app_hosts": ["https://api.example.org", "https://a.cdn.example.org"]}
    async with built(tool_user({"raw": looking(_meta={"ui": meta}) | allowed})) as agent:
        keeping(agent)
        needs = [part["data"]["needs"] for _ in range(2) for part in await shown(agent)]
    declared = {
        "connectDomains": ["https://api.example.org", "https://other.example.org"],
        "resourceDomains": ["https://*.cdn.example.org"],
    }
    assert needs == [{"csp": declared, "permissions": ["camera"], "domain": True, "unreadable": 2}] * 2
    [line] = [vars(record) for record in caplog.records if record.msg == "MCP UI resource declares needs"]
    assert (line["levelname"], line["mcp_server"], line["unreadable"]) == ("WARNING", "raw", 2)
    assert line["allowed"] == {
        "connectDomains": ["https://api.example.org"],
        "resourceDomains": ["https://a.cdn.example.org"],
    }
    assert line["refused"] == ["https://other.example.org", "https://*.cdn.example.org", "camera", "domain"]


UNSHOWN: dict[str, dict[str, Any]] = {
    "no address": {"meta": {"ui": {}}},
    "an address of something else": {"meta": {"ui": {"resourceUri": "https://example.org/"}}},
    "an endless address": {"meta": {"ui": {"resourceUri": "ui://" + "a" * 2_000}}},
    "an address with controls": {"meta": {"ui": {"resourceUri": "ui://a\nb"}}},
    "no ui": {"meta": {"ui": "ui://look"}},
    "no meta": {"meta": "ui"},
    "another type": {"mimeType": "text/html"},
    "no type": {"mimeType": None},
    "no text": {"text": " "},
    "a blob that is no text": {"text": None, "blob": "/////"},
    "too large": {"text": "a" * (2 * 1024 * 1024 + 1)},
    "a failure": {"result": RESULT | {"isError": True}},
    "numbers that no store keeps": {"result": RESULT | {"structuredContent": {"large": 2**70}}},
    "too deep": {"result": RESULT | {"structuredContent": json.loads('{"a":' * 99 + "1" + "}" * 99)}},
    "too long": {"result": RESULT | {"structuredContent": {"long": "a" * 1024 * 1024}}},
}


@pytest.mark.parametrize("said", UNSHOWN.values(), ids=UNSHOWN)
async def test_what_is_none_leaves_the_result_as_it_is(said: dict[str, Any]) -> None:
    async with built(tool_user({"raw": looking(**said)})) as agent:
        keeping(agent)
        message = await call(agent, "look")
    assert message.text == "seen"
    assert "custom" not in [part["type"] for part in (message.artifact or {}).get("parts", [])]


@pytest.mark.parametrize("meta", [5, {"a": list(range(2_000))}, ["a"]], ids=["a number", "too much", "a list"])
async def test_a_meta_that_cant_be_read_is_left_out(meta: Any) -> None:
    async with built(tool_user({"raw": looking(result=RESULT | {"_meta": meta}, _meta=meta)})) as agent:
        keeping(agent)
        [part] = await shown(agent)
    assert "_meta" not in part["data"]["result"]


async def test_the_resource_is_read_once_per_connection() -> None:
    pages = [{"name": "look", "_meta": {"ui": {"resourceUri": URI}}}, {"name": "heard"}]
    resource = {"contents": [{"uri": URI, "mimeType": "text/html; profile=mcp-app", "text": HTML}]}
    async with built(tool_user({"raw": raw_server(pages, result=RESULT, resource=resource)})) as agent:
        kept = keeping(agent)
        for _ in range(3):
            assert len(await shown(agent)) == 1
        heard = (await call(agent, "heard")).text.split("\n")
    assert (heard.count("resources/read"), len(kept)) == (1, 1)


async def test_a_result_does_not_wait_for_a_resource_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_resources, "LATE_S", 0.05)
    pages = [{"name": "look", "_meta": {"ui": {"resourceUri": URI}}}, {"name": "heard"}]
    settings = raw_server(pages, result=RESULT, resource="hang") | {"tool_timeout_s": 20}
    async with built(tool_user({"raw": settings})) as agent:
        kept = keeping(agent)
        for _ in range(3):
            assert [part["type"] for part in await shown(agent)] == ["code"]
        # It is asked for once.
        assert (await call(agent, "heard")).text.split("\n").count("resources/read") == 1
    assert kept == []


async def test_what_the_session_could_not_keep_is_tried_again() -> None:
    async with built(tool_user({"raw": looking()})) as agent:
        answers: list[str | None] = [None, "/kept/1"]

        async def keep(html: str) -> str | None:
            return answers.pop(0)

        agent.runtime_context = replace(agent.runtime_context, keep_ui_resource=keep)
        assert [[part["type"] for part in await shown(agent)] for _ in range(3)] == [["code"], ["custom"], ["custom"]]


async def test_a_run_of_no_session_keeps_none() -> None:
    async with built(tool_user({"raw": looking()})) as agent:
        assert [part["type"] for part in await shown(agent)] == ["code"]


@pytest.mark.mcp_everything
async def test_a_server_is_told_whether_its_resources_are_shown() -> None:
    settings = {"transport": "stdio", "command": "node", "args": [app_program("server-debug"), "--stdio"]}
    for more, count in ({}, 1), ({"apps": False}, 0):
        async with built(tool_user({"debug": settings | more})) as agent:
            keeping(agent)
            message = await call(agent, "debug-tool", contentType="image")
        kinds = [part.get("kind", part["type"]) for part in message.artifact["parts"]]
        # An image is there for those who don't show the resource.
        assert (kinds.count("mcp:app"), kinds.count("image_url")) == (count, 3)


HIDDEN: dict[str, Any] = {"apps alone": ["app"], "nobody": [], "what is no list": "model", "others": ["somebody"]}


@pytest.mark.parametrize("visibility", HIDDEN.values(), ids=HIDDEN)
async def test_a_tool_that_is_not_for_models_is_given_to_none(visibility: Any) -> None:
    pages = [{"name": "look", "_meta": {"ui": {"visibility": visibility}}}, {"name": "heard"}]
    async with built(tool_user({"raw": raw_server(pages, result=RESULT)})) as agent:
        assert tools_of(agent) == ["heard"]
    needed = [{"id": "raw", "require_tools": ["look"]}]
    with pytest.raises(AgentUnavailable, match="lacks the tools look"):
        async with built(tool_user({"raw": raw_server(pages, result=RESULT)}, uses=needed)):
            pass
