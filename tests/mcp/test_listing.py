"""The tools that a server lists: one that is none keeps no other away."""

import json
from typing import Any

import pytest
from services.mcp_raw import raw_server
from support.mcp_agents import built, told, tool_user, tools_of

from agentic_backend.agents.tool_titles import tool_titles
from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.framing import Capped
from agentic_backend.mcp.inbound import Inbound

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


def listed(*tools: Any) -> list[Any]:
    """The tools that MCP's client reads of a list with these `tools`."""
    answer, inbound = Capped(), Inbound("raw", Credentials())
    answer.add(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode())
    with inbound.awaiting(1):
        said = inbound.read(answer)
    assert said is not None
    read: list[Any] = json.loads(said)["result"]["tools"]
    return read


@pytest.mark.parametrize("bad", NO_TOOLS.values(), ids=NO_TOOLS)
def test_what_is_no_tool_is_left_out_of_the_list(bad: Any) -> None:
    good = {"name": "good", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    assert listed(bad, good, bad) == [good]


def test_a_schema_may_have_numbers_of_any_size() -> None:
    tool = {"name": "count", "inputSchema": {"type": "object", "properties": {"n": {"maximum": 2**64}}}}
    assert listed(tool) == [tool]


def test_of_too_many_annotations_none_is_read() -> None:
    tool = {"name": "noted", "inputSchema": SCHEMA}
    assert listed({**tool, "annotations": {f"x{number}": 1 for number in range(257)}}) == [tool]
    few = {**tool, "annotations": {f"x{number}": 1 for number in range(256)}}
    assert listed(few) == [few]


async def test_a_server_with_a_tool_that_is_none_is_there_with_its_others() -> None:
    large = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**64}}}
    tools = [{"name": "null", "inputSchema": None}, {"name": "number", "description": 5}]
    server = raw_server([*tools, {"name": "large", "inputSchema": large}, {"name": "good"}], result={"content": []})
    async with built(tool_user({"raw": server})) as agent:
        assert tools_of(agent) == ["large", "good"]
        assert await told(agent, "large", n=1) == "The tool gave no content."


async def test_a_tool_keeps_its_title_or_that_of_its_annotations() -> None:
    annotated = {"annotations": {"title": "By annotation"}}
    tools = [
        {"name": "both", "title": "By itself", **annotated},
        {"name": "annotated", **annotated},
        {"name": "neither"},
    ]
    async with built(tool_user({"raw": raw_server(tools, result={"content": []})})) as agent:
        assert tool_titles([agent]) == {"both": "By itself", "annotated": "By annotation"}
