"""Which rows tell that their message reached the root graph, and which rows a history is then made of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage

from agentic_backend.protocol.messages import Channel, Role, utc_now
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.transcode.reach import Reach, keys_of, rows_that_reached

CALL = {"name": "look", "args": {}, "id": "c1"}


def rows(*marks: dict[str, Any], final: bool = True) -> list[MessageRecord]:
    """A row for each of these marks; the last one is a final."""
    return [
        MessageRecord(
            session_id="s",
            exchange_id="e",
            rank=rank,
            timestamp=utc_now(),
            role=Role.ASSISTANT,
            channel=Channel.FINAL if final and rank == len(marks) - 1 else Channel.OBSERVATION,
            parts=[TextPart(text=str(rank))],
            **more,
        )
        for rank, more in enumerate(marks)
    ]


def ranks(kept: Sequence[MessageRecord]) -> list[int]:
    return [row.rank for row in kept]


def test_a_message_is_known_by_its_id_and_its_calls_or_its_text() -> None:
    assert keys_of(AIMessage("text", id="m1", tool_calls=[CALL]), by_text=True) == ["m1", "c1"]
    assert keys_of(AIMessage("text", id="m1"), by_text=True) == ["m1", "text"]
    assert keys_of(AIMessage("text", id="m1")) == ["m1"]
    assert keys_of(AIMessage("text")) == []


def test_what_reached_the_root_before_it_is_stored_carries_no_mark() -> None:
    reach = Reach()
    reach.add(["m1"])
    assert reach.marks(["m1", "text"]) == {}


def test_rows_of_a_message_that_reaches_the_root_later_are_named_once_by_the_next_row() -> None:
    reach = Reach()
    first, second = reach.marks(["m1", "c1"]), reach.marks(["m2"])
    reach.add(["copy", "c1"])
    reach.add(["m1", "c1"])
    named, final = reach.marks_of_final(), reach.marks_of_final()
    assert final == {}
    assert ranks(rows_that_reached(rows(first, second, named))) == [0, 2]


def test_all_rows_of_a_message_have_one_fate_and_no_other_message_shares_it() -> None:
    reach = Reach()
    marks = [reach.marks(["m1", "c1"]), reach.marks(["m1", "c1"]), reach.marks(["m2", "c2"]), reach.marks(["m3"])]
    reach.add(["m2"])
    assert ranks(rows_that_reached(rows(*marks, reach.marks_of_final()))) == [2, 4]


def test_a_final_counts_though_its_agent_kept_it_to_itself() -> None:
    mark = Reach().marks(["m1"])
    assert ranks(rows_that_reached(rows(mark, mark))) == [1]
    assert ranks(rows_that_reached(rows(mark, mark, final=False))) == []


def test_results_go_with_their_calls_though_a_model_uses_an_id_again() -> None:
    mark = Reach().marks(["m1", "c1"])
    call, result = ToolCallPart(call_id="c1", name="look", args={}), ToolResultPart(call_id="c1", content="seen")
    parts = [call, result, call, result, TextPart(text="Done")]
    channels = [Channel.TOOL_CALL, Channel.TOOL_RESULT, Channel.TOOL_CALL, Channel.TOOL_RESULT, Channel.FINAL]
    exchange = [
        replace(row, parts=[part], channel=channel)
        for row, part, channel in zip(rows(mark, {}, {}, {}, {}), parts, channels, strict=True)
    ]
    assert ranks(rows_that_reached(exchange)) == [2, 3, 4]
