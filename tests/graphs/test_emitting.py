"""Parts that nodes and tools emit, and custom events: what people see of them, and where."""

import json
import logging
from typing import Any

import pytest
from graphs import emitting as served
from graphs.emitting import CODE, LINK, MAP, STEPS
from graphs.talk import activities, ask, told
from support.chat_client import Event, chat
from support.rest_client import plain_http
from support.running_server import RunningServer

from agentic_backend.agents.parts import LinkPart, TextPart, emit_parts

AGENTS = served.AGENTS

SAID = {"type": "text", "text": "Here it is."}


def steps(events: list[Event]) -> list[int]:
    """The steps of the custom events that came. On a slow machine a flood is also told of as code that blocks."""
    return [data["step"] for data in activities(events, "progress") if "step" in data]


def shown(events: list[Event]) -> list[tuple[str, list[dict[str, object]]]]:
    return [(message["channel"], message["parts"]) for message in events[-1]["messages"][1:]]


@pytest.mark.parametrize(
    ("agent_id", "expected"),
    [
        ("before", [("observation", [LINK]), ("final", [SAID])]),
        ("beside", [("final", [SAID, MAP])]),
        ("after", [("final", [SAID, LINK])]),
        ("only", [("observation", [LINK]), ("final", [{"type": "text", "text": ""}])]),
    ],
)
async def test_emitted_parts_are_shown_where_they_belong_and_stored(
    server: RunningServer, agent_id: str, expected: list[tuple[str, list[dict[str, object]]]]
) -> None:
    events = await ask(server.address, "show", agent_id=agent_id)
    assert shown(events) == expected
    async with plain_http(base_url=server.address) as client:
        stored = await client.get(f"/agentic/v1/sessions/{events[0]['session_id']}/messages")
    assert stored.json()["messages"] == events[-1]["messages"]


@pytest.mark.parametrize("agent_id", ["in-tool", "in-subgraph"])
async def test_parts_that_a_tool_emits_are_shown_at_once_before_its_result(
    server: RunningServer, agent_id: str
) -> None:
    events = await ask(server.address, "show", agent_id=agent_id)
    assert [channel for channel, _ in shown(events)] == ["tool_call", "observation", "tool_result", "final"]
    assert shown(events)[1] == ("observation", [CODE, LINK])


async def test_an_invalid_part_is_an_error_of_the_node_that_says_what_is_wrong(server: RunningServer) -> None:
    [(_, text)] = told(await ask(server.address, "show", agent_id="invalid"))
    assert text.startswith("emit_parts: part 0 is no part of a message: link: kind: Input should be 'citation'")


def test_parts_are_counted_before_they_are_read_and_measured_in_bytes() -> None:
    with pytest.raises(ValueError, match="65 parts at once, more than 64"):
        emit_parts(*[{"type": "nonsense"}] * 65)
    with pytest.raises(ValueError, match="bytes of parts at once, more than 2000000"):
        emit_parts(TextPart(text="€" * 700_000))


def test_what_a_link_tells_a_panel_is_not_nested_too_deep() -> None:
    deep: dict[str, Any] = {}
    for _ in range(101):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="emit_parts: a link part is nested deeper than 100"):
        emit_parts(LinkPart(kind="view", panel="boards/board", panel_data=deep))


async def test_an_exchange_has_only_so_many_emitted_parts(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        events = await ask(server.address, "show", agent_id="too-many")
    assert [channel for channel, _ in shown(events)].count("observation") == 500
    assert sum(data["left_out_parts"] for data in activities(events, "progress")) == 100
    assert "agent emits too many parts" in caplog.text
    assert "SELECT" not in caplog.text


async def test_custom_events_all_arrive_however_fast_they_come(server: RunningServer) -> None:
    events = await ask(server.address, "go", agent_id="flooding")
    assert steps(events) == list(range(STEPS))


async def test_what_is_too_much_of_custom_events_is_counted(server: RunningServer) -> None:
    async with chat(server.address, max_size=None) as client:
        events = await client.ask("go", agent_id="flooding-large")
    told_of = activities(events, "progress")
    left_out = [data["left_out"] for data in told_of if "left_out" in data]
    assert left_out and sum(left_out) + len(steps(events)) == 100
    assert len(json.dumps(told_of)) < 2 * 2**20, "the newest MiB, and what the client read meanwhile"
    assert steps(events)[-1] == 99


async def test_a_custom_event_that_is_too_large_or_no_json_is_shortened(server: RunningServer) -> None:
    large, odd = activities(await ask(server.address, "go", agent_id="odd-payloads"), "progress")
    assert large["shortened"].startswith('{"table":"xxx')
    assert large["shortened"].endswith("more characters left out]")
    assert odd == {"model": "<ChunkModel>"}
