"""The tools that a server lists: one that is none keeps no other away."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Tool
from services.mcp_raw import raw_server
from support.chat_client import chat
from support.mcp_agents import built, told, tool_user, tools_of
from support.running_server import running_server

from agentic_backend.agents.tools.tool_titles import tool_titles
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp import tools as mcp_tools
from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.framing import Capped
from agentic_backend.mcp.inbound import Inbound
from agentic_backend.mcp.usable_tools import usable_tools

SCHEMA = {"type": "object"}
NO_TOOLS: dict[str, Any] = {
    "no schema": {"name": "bad"},
    "a schema that is no object": {"name": "bad", "inputSchema": ["object"]},
    "a schema that is null": {"name": "bad", "inputSchema": None},
    "a description that is no text": {"name": "bad", "inputSchema": SCHEMA, "description": 5},
    "a title that is no text": {"name": "bad", "inputSchema": SCHEMA, "title": ["Bad"]},
    "annotations that are no object": {"name": "bad", "inputSchema": SCHEMA, "annotations": "read-only"},
    "an annotation of another type": {"name": "bad", "inputSchema": SCHEMA, "annotations": {"title": 5}},
    "a name that is no text": {"name": 5, "inputSchema": SCHEMA},
    "a text": "bad",
}


async def listed(*tools: Any) -> list[Any]:
    """The tools that MCP's client reads of a list with these `tools`."""
    answer, inbound = Capped(), Inbound("raw", Credentials())
    answer.add(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode())
    with inbound.awaiting(1):
        said = await inbound.read(answer)
    assert said is not None
    read: list[Any] = json.loads(said)["result"]["tools"]
    return read


@pytest.mark.parametrize("bad", NO_TOOLS.values(), ids=NO_TOOLS)
async def test_what_is_no_tool_is_left_out_of_the_list(bad: Any) -> None:
    good = {"name": "good", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    assert await listed(bad, good, bad) == [good]


async def test_a_schema_may_have_numbers_of_any_size() -> None:
    tool = {"name": "count", "inputSchema": {"type": "object", "properties": {"n": {"maximum": 2**64}}}}
    assert await listed(tool) == [tool]


async def test_of_too_many_annotations_none_is_read() -> None:
    tool = {"name": "noted", "inputSchema": SCHEMA}
    assert await listed({**tool, "annotations": {f"x{number}": 1 for number in range(257)}}) == [tool]
    few = {**tool, "annotations": {f"x{number}": 1 for number in range(256)}}
    assert await listed(few) == [few]


async def test_a_server_with_a_tool_that_is_none_is_there_with_its_others() -> None:
    large = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**64}}}
    tools = [{"name": "null", "inputSchema": None}, {"name": "number", "description": 5}]
    server = raw_server([*tools, {"name": "large", "inputSchema": large}, {"name": "good"}], result={"content": []})
    async with built(tool_user({"raw": server})) as agent:
        assert tools_of(agent) == ["large", "good"]
        assert await told(agent, "large", n=1) == "The tool gave no content."


def argument(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


def nested(levels: int) -> Any:
    return argument(nested(levels - 1)) if levels else {"type": "string"}


UNUSABLE = [
    {"name": "list", "inputSchema": ["object"]},
    {"name": "array", "inputSchema": {"type": "array"}},
    {"name": "nullable", "inputSchema": {"type": ["object", "null"]}},
    {"name": "bound", "inputSchema": argument({"type": "integer", "minimum": "none"})},
    {"name": "alternatives", "inputSchema": argument({"anyOf": "string"})},
    {"name": "properties", "inputSchema": {"type": "object", "properties": ["a"]}},
    {"name": "length", "inputSchema": argument({"type": "string", "maxLength": "3"})},
    {"name": "deep", "inputSchema": nested(51)},
    {"name": "deeper", "inputSchema": nested(400)},
    {"name": "dangling", "inputSchema": argument({"$ref": "#/$defs/Nope"})},
    {"name": "outside", "inputSchema": argument({"$ref": "https://schemas.example/a.json"})},
    {"name": "circle", "inputSchema": argument({"$ref": "#/properties/a"})},
    {"name": "lookalike", "inputSchema": {"type": "object", "properties": {"$ref": {"type": "string"}}}},
    {"name": "large", "inputSchema": argument({"description": "w" * 70_000})},
]
USABLE = [
    {"name": "good"},
    {"name": "tree", "inputSchema": argument({"type": "array", "items": {"$ref": "#/properties/a"}})},
    {"name": "escaped", "inputSchema": {**argument({"$ref": "#/$defs/a~1b"}), "$defs": {"a/b": {"type": "string"}}}},
    {"name": "levels", "inputSchema": nested(49)},
    {"name": "untyped", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "answers", "outputSchema": argument({"$ref": "#/$defs/Nope"})},
]


def left_out(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [vars(record) for record in caplog.records if record.message == "MCP tool left out"]
    return [(line["mcp_server"], line["tool"]) for line in lines]


async def test_a_tool_that_no_model_can_be_given_is_left_out_with_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = raw_server([*UNUSABLE, *USABLE], result={"content": []})
    entry = {"id": "user", "class_path": "support.mcp_agents:ToolUser", "tuning": {"mcp_servers": [{"id": "raw"}]}}
    async with (
        running_server(tmp_path, agents=[entry], settings={"mcp_servers": {"raw": server}}) as served,
        chat(served.address) as client,
    ):
        assert (await client.ask("hello", agent_id="user"))[-1]["status"] == "ok"
    assert sorted(left_out(caplog)) == sorted(("raw", tool["name"]) for tool in UNUSABLE)


async def test_the_others_are_there_and_work() -> None:
    server = raw_server([*UNUSABLE, *USABLE], result={"content": []})
    async with built(tool_user({"raw": server})) as agent:
        assert tools_of(agent) == [tool["name"] for tool in USABLE]
        assert await told(agent, "escaped", a="x") == "The tool gave no content."


async def test_a_tool_that_is_required_and_left_out_is_missing() -> None:
    agent = tool_user({"raw": raw_server(UNUSABLE, result={})}, uses=[{"id": "raw", "require_tools": ["dangling"]}])
    with pytest.raises(AgentUnavailable, match="lacks the tools dangling"):
        await agent.async_init()


async def test_whatever_the_adapter_raises_of_a_tool_leaves_out_that_tool(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    convert = mcp_tools.convert_mcp_tool_to_langchain_tool

    def raising(session: Any, tool: Any, **more: Any) -> Any:
        if tool.name == "odd":
            raise ZeroDivisionError
        return convert(session, tool, **more)

    monkeypatch.setattr(mcp_tools, "convert_mcp_tool_to_langchain_tool", raising)
    async with built(tool_user({"raw": raw_server([{"name": "odd"}, {"name": "good"}], result={})})) as agent:
        assert tools_of(agent) == ["good"]
    assert left_out(caplog) == [("raw", "odd")]


def test_the_tools_of_a_server_have_one_bound_together(caplog: pytest.LogCaptureFixture) -> None:
    definitions = {"$defs": {"t": {"description": "w" * 400}}}
    large = {**argument({"anyOf": [{"$ref": "#/$defs/t"}] * 1_000}), **definitions}
    tools = [Tool(name=f"large{number}", inputSchema=large) for number in range(12)]
    usable, unusable = usable_tools("raw", tools)
    assert 8 <= len(usable) < 12
    assert left_out(caplog) == [("raw", name) for name in unusable] == [("raw", t.name) for t in tools[len(usable) :]]


async def test_a_tool_keeps_its_title_or_that_of_its_annotations() -> None:
    annotated = {"annotations": {"title": "By annotation"}}
    tools = [
        {"name": "both", "title": "By itself", **annotated},
        {"name": "annotated", **annotated},
        {"name": "neither"},
    ]
    async with built(tool_user({"raw": raw_server(tools, result={"content": []})})) as agent:
        assert tool_titles([agent]) == {"both": "By itself", "annotated": "By annotation"}
