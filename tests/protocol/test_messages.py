"""The exact JSON of messages and sessions, and how messages get their ranks."""

import json
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest
from pydantic import ValidationError
from support.protocol_samples import AT, AT_TEXT, MESSAGE, MESSAGE_SHAPE, SESSION, SESSION_SHAPE

from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    ExchangeStatus,
    FinishReason,
    MessageMetadata,
    Role,
    Session,
    SessionState,
    TokenUsage,
    utc_now,
)
from agentic_backend.protocol.parts import ToolCallPart


def shape(value: Any) -> Any:
    return json.loads(value.model_dump_json())


def test_a_message_has_exactly_its_fields_and_comes_back() -> None:
    assert shape(MESSAGE) == MESSAGE_SHAPE
    assert ChatMessage.model_validate_json(MESSAGE.model_dump_json()) == MESSAGE


def test_a_message_of_a_query_has_a_null_session() -> None:
    message = MESSAGE.model_copy(update={"session_id": None})
    assert shape(message) == MESSAGE_SHAPE | {"session_id": None}
    assert ChatMessage.model_validate_json(message.model_dump_json()) == message


def test_full_metadata_has_exactly_its_fields_and_comes_back() -> None:
    metadata = MessageMetadata(
        model="m",
        token_usage=TokenUsage(input_tokens=1, output_tokens=2, total_tokens=3),
        sources=[{"title": None}],
        agent_id="a",
        latency_ms=0,
        finish_reason=FinishReason.STOP,
        extras={"none": None},
    )
    assert shape(metadata) == {
        "model": "m",
        "token_usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        "sources": [{"title": None}],
        "agent_id": "a",
        "latency_ms": 0,
        "finish_reason": "stop",
        "extras": {"none": None},
    }
    assert MessageMetadata.model_validate_json(metadata.model_dump_json()) == metadata


def test_nulls_within_the_arguments_of_a_tool_are_kept() -> None:
    call = ToolCallPart(call_id="c", name="n", args={"none": None, "deep": {"none": None}})
    message = MESSAGE.model_copy(update={"parts": [call]})
    assert shape(message)["parts"][0]["args"] == {"none": None, "deep": {"none": None}}


def test_a_session_has_exactly_its_fields_and_comes_back() -> None:
    assert shape(SESSION) == SESSION_SHAPE
    full = SESSION.model_copy(
        update={"state": SessionState.COMPLETED, "ended_at": AT, "active_exchange_id": "e", "next_rank": 3}
    )
    assert shape(full) == SESSION_SHAPE | {
        "state": "completed",
        "ended_at": AT_TEXT,
        "active_exchange_id": "e",
        "next_rank": 3,
    }
    assert Session.model_validate_json(full.model_dump_json()) == full


def test_times_are_written_in_utc_with_microseconds_so_that_texts_sort_as_times_do() -> None:
    elsewhere = datetime(2026, 2, 3, 4, 0, 0, 0, timezone(timedelta(hours=-7)))
    times = [AT, elsewhere, AT.replace(microsecond=0), AT.replace(microsecond=999_999)]
    texts = [shape(MESSAGE.model_copy(update={"timestamp": at}))["timestamp"] for at in times]
    assert texts[1] == "2026-02-03T11:00:00.000000Z"
    assert {len(text) for text in texts} == {27}
    assert [texts[times.index(at)] for at in sorted(times)] == sorted(texts)
    assert utc_now().tzinfo is UTC


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (Role, "user assistant tool system"),
        (Channel, "final plan thought observation tool_call tool_result error system_note"),
        (FinishReason, "stop length content_filter tool_calls cancelled other"),
        (SessionState, "active completed"),
        (ExchangeStatus, "running awaiting_human ok error stopped blocked interrupted"),
    ],
)
def test_the_names_are_those_of_the_contract(values: type[StrEnum], names: str) -> None:
    assert [str(value) for value in values] == names.split()


def test_which_statuses_are_an_end() -> None:
    assert [status for status in ExchangeStatus if not status.ended] == ["running", "awaiting_human"]


def test_usage_adds_up() -> None:
    one, two = TokenUsage(input_tokens=1, output_tokens=2, total_tokens=3), TokenUsage(output_tokens=5, total_tokens=5)
    assert one + two == TokenUsage(input_tokens=1, output_tokens=7, total_tokens=8)
    assert (TokenUsage() + TokenUsage()).model_dump() == {}, "what nobody counted is absent, not 0"
    assert TokenUsage() + one == one


@pytest.mark.parametrize(
    "change",
    [{"role": "human"}, {"channel": "x"}, {"parts": None}, {"wizard": 1}, {"timestamp": "soon"}, {"rank": "first"}],
)
def test_what_is_no_message_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChatMessage.model_validate(MESSAGE_SHAPE | change)
