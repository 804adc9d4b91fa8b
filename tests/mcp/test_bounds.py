"""Servers that send too much, or what no server should: the call ends, says what was cut, and the next one works."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langgraph.graph import MessagesState
from services.mcp_hostile import TRANSPORTS, hostile_server
from support.further_cases import each_once
from support.mcp_agents import ToolUser, built, call, one_node, refused, told, tool_user, tools_of

from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.framing import MOST_BYTES
from agentic_backend.mcp.inbound import MOST_BLOCKS, MOST_UNREAD_BYTES, Inbound, TooMuch
from agentic_backend.mcp.results import MAX_TEXT

MANY, LARGE = 3_000, 3 * MOST_BYTES


FLOODS = ["progress", "late_method", "logs", "changes", "requests", "strangers", "garbage", "long_progress"]
CUT = {
    "blocks": (10_000, f"[cut: {10_000 - MOST_BLOCKS} more blocks left out]"),
    "text": (LARGE, f"of which the first {MOST_BYTES} were read]"),
    "structured": (20_000, "[cut: structured content of more than 10000 values left out]"),
    "image": (LARGE, f"of which the first {MOST_BYTES} were read]"),
    "resource": (LARGE, f"of which the first {MOST_BYTES} were read]"),
}


@pytest.fixture(scope="module", params=TRANSPORTS)
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    with hostile_server(request.param) as settings:
        yield settings


@pytest.fixture(scope="module")
def over_http() -> Iterator[dict[str, Any]]:
    with hostile_server("streamable_http") as settings:
        yield settings


@pytest.fixture
async def agent(settings: dict[str, Any]) -> AsyncIterator[ToolUser]:
    async with built(tool_user({"hostile": settings})) as agent:
        yield agent


async def test_what_nobody_asked_for_keeps_no_answer_away(agent: ToolUser) -> None:
    for name in FLOODS:
        assert await told(agent, name, value=str(MANY)) == "done", name


async def test_progress_is_told_now_and_then_and_the_last_of_it_always(agent: ToolUser) -> None:
    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", await told(agent, "progress", value=str(MANY)))]}

    stream = one_node(answer).astream({"messages": [("human", "go")]}, stream_mode="custom")
    numbers = [report["progress"] async for report in stream]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == MANY - 1
    assert len(numbers) < MANY / 10


async def test_a_result_that_is_too_large_says_what_was_cut(agent: ToolUser) -> None:
    for name, (value, says) in CUT.items():
        result = await told(agent, name, value=str(value))
        assert says in result, name
        assert len(result) <= MAX_TEXT + 500
    assert await told(agent, "blocks", value="1") == "b"


async def test_of_a_long_text_the_beginning_is_shown(agent: ToolUser) -> None:
    assert (await told(agent, "text", value=str(LARGE))).count("x") > MAX_TEXT - 200


@pytest.mark.parametrize(("name", "value"), [("nesting", 100_000), ("nesting", LARGE), ("error", LARGE)])
async def test_an_answer_that_is_none_fails_the_call_at_once(agent: ToolUser, name: str, value: int) -> None:
    assert len(await refused(agent, name, value=str(value))) <= 2_000
    assert await told(agent, "blocks", value="1") == "b"


async def test_a_result_is_never_checked_by_a_schema_of_the_servers(agent: ToolUser) -> None:
    """Its pattern would take longer than the universe has."""
    assert await told(agent, "pattern", value="60") == "matched"


async def test_an_answer_that_trickles_without_end_is_given_up(settings: dict[str, Any]) -> None:
    async with built(tool_user({"hostile": {**settings, "tool_timeout_s": 1}})) as agent:
        assert await refused(agent, "trickle", value="1000") == "The tool did not end within 1 seconds."


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("bomb", LARGE, "gave an answer in a form that was not asked for"),
        ("unknown_type", 0, "gave an answer in a form that was not asked for"),
        ("error_body", LARGE, "is not available"),
        ("redirect", 0, "is not available"),
    ],
)
async def test_a_response_that_is_no_answer_fails_the_call(
    over_http: dict[str, Any], name: str, value: int, says: str
) -> None:
    async with built(tool_user({"hostile": over_http})) as agent:
        assert says in await refused(agent, name, value=str(value))
        while (await call(agent, "blocks", value="1")).text != "b":
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("listing", ["large_schema", "long_name", "no_end"])
async def test_a_tool_that_no_model_could_be_offered_is_left_out(listing: str) -> None:
    with hostile_server("streamable_http", listing) as settings:
        async with built(tool_user({"hostile": settings})) as agent:
            assert "blocks" in tools_of(agent)
            assert all(len(name) <= 64 and not name.startswith("n" * 60) for name in tools_of(agent))
            assert "extra" not in tools_of(agent)


async def test_a_long_description_is_cut() -> None:
    with hostile_server("stdio", "long_description") as settings:
        async with built(tool_user({"hostile": settings})) as agent:
            assert agent.mcp is not None
            assert max(len(tool.description) for tool in agent.mcp.get_tools()) == 8_192


@pytest.mark.parametrize(("transport", "listing"), each_once(TRANSPORTS, ["many", "huge_schema"]))
async def test_a_list_of_tools_that_is_too_long_to_be_read_leaves_the_server_out(transport: str, listing: str) -> None:
    with hostile_server(transport, listing) as settings:
        agent = tool_user({"hostile": settings})
        with pytest.raises(AgentUnavailable, match="hostile"):
            await agent.async_init()
        await agent.aclose()


def test_a_server_may_send_only_so_much_beside_what_it_is_asked_for() -> None:
    inbound = Inbound("hostile", Credentials())
    with inbound.awaiting(1):
        inbound.spend(MOST_UNREAD_BYTES)
    with inbound.awaiting(2):
        inbound.spend(MOST_UNREAD_BYTES)
        with pytest.raises(TooMuch):
            inbound.spend(1)
