"""The renderer of the session stream, event by event."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from support.protocol_samples import AT

from agentic_backend.errors import ShuttingDown
from agentic_backend.protocol.events import Activity, Delta, ErrorInfo, Event, Final, Pong, Reset, Stream
from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    ExchangeStatus,
    FinishReason,
    MessageMetadata,
    Role,
    TokenUsage,
)
from agentic_backend.protocol.parts import LinkPart, Part, TextPart, ToolCallPart, ToolResultPart
from agentic_backend.transports.session_stream.renderer import SessionStreamRenderer

CALL = ToolCallPart(call_id="c1", name="look_up", args={"a": None})
RESULT = ToolResultPart(call_id="c1", ok=True, content="found")


def message(rank: int, role: Role, channel: Channel, *parts: Part, **metadata: Any) -> ChatMessage:
    return ChatMessage(
        session_id="s",
        exchange_id="e",
        rank=rank,
        timestamp=AT + timedelta(milliseconds=250 * rank),
        role=role,
        channel=channel,
        parts=list(parts),
        metadata=MessageMetadata(**metadata),
    )


ASKED = message(0, Role.USER, Channel.FINAL, TextPart(text="hello"))
CALLED = message(1, Role.ASSISTANT, Channel.TOOL_CALL, CALL, model="m")
FOUND = message(2, Role.TOOL, Channel.TOOL_RESULT, RESULT, LinkPart(kind="view"))
ANSWER = message(3, Role.ASSISTANT, Channel.FINAL, TextPart(text="It is there."), finish_reason=FinishReason.STOP)
MESSAGES = [ASKED, CALLED, FOUND, ANSWER]


def stream(seq: int, shown: ChatMessage, block: int | None = None) -> Stream:
    return Stream(session_id="s", exchange_id="e", seq=seq, message=shown, block=block)


def final(
    status: ExchangeStatus = ExchangeStatus.OK, messages: Sequence[ChatMessage] = MESSAGES, **fields: Any
) -> Final:
    place = {"session_id": "s", "exchange_id": "e", "seq": 9}
    return Final(**place, status=status, messages=list(messages), session=None, usage=TokenUsage(), **fields)


def rendered(*events: Event, renderer: SessionStreamRenderer | None = None) -> list[dict[str, Any]]:
    renderer = renderer or SessionStreamRenderer("r")
    shown = []
    for event in events:
        for sent in renderer.render(event):
            data = json.loads(str(sent.data))
            assert sent.event == data["type"]
            shown.append(data)
    return shown


CALLED_EVENT = {"type": "tool_call", "toolCall": {"id": "c1", "name": "look_up", "args": {"a": None}}}
FOUND_EVENT = {"type": "tool_result", "toolResult": {"id": "c1", "result": "found", "ok": True}}
META = {"model": "m", "tokens": {}, "latencyMs": 750, "exchangeId": "e", "seq": 3, "finishReason": "stop"}


def test_an_exchange_is_rendered_in_the_five_types() -> None:
    events = [stream(seq, shown) for seq, shown in enumerate(MESSAGES, start=2)]
    assert rendered(*events, final()) == [
        CALLED_EVENT,
        FOUND_EVENT,
        {"type": "chunk", "content": "It is there."},
        {"type": "done", "meta": META},
    ]


def test_thoughts_and_activities_are_not_shown() -> None:
    place = {"session_id": "s", "exchange_id": "e"}
    thought = message(1, Role.ASSISTANT, Channel.THOUGHT, TextPart(text="hm"))
    assert (
        rendered(
            Delta(**place, seq=2, block=0, channel=Channel.THOUGHT, text="hm"),
            stream(3, thought, 0),
            Activity(**place, seq=4, kind="progress", data={}),
            Pong(),
        )
        == []
    )


def test_after_a_reset_no_call_and_no_text_is_shown_twice() -> None:
    place = {"session_id": "s", "exchange_id": "e"}
    text = Delta(**place, seq=4, block=0, channel=Channel.FINAL, text="It is ")
    reset = Reset(**place, seq=7, messages=[ASKED, CALLED, FOUND], partial=[])
    renderer = SessionStreamRenderer("r")
    assert len(rendered(stream(2, ASKED), stream(3, CALLED), text, renderer=renderer)) == 2
    [gone, found] = rendered(reset, renderer=renderer)
    assert (gone, found) == ({"type": "chunk", "content": "", "replaces": True}, FOUND_EVENT)
    shown = rendered(stream(8, ANSWER), final(), renderer=renderer)
    assert [event["type"] for event in shown] == ["chunk", "done"]


def test_the_stream_is_over_after_its_end_alone() -> None:
    renderer = SessionStreamRenderer("r")
    rendered(stream(2, ASKED), renderer=renderer)
    assert not renderer.is_over
    rendered(final(), renderer=renderer)
    assert renderer.is_over


def test_an_answer_without_a_model_and_without_a_text_is_done() -> None:
    [done] = rendered(final(ExchangeStatus.STOPPED, [ASKED]))
    meta = {"model": None, "tokens": {}, "latencyMs": 0, "exchangeId": "e", "cancelled": True}
    assert done == {"type": "done", "meta": meta}


def test_a_count_that_no_model_has_told_is_absent() -> None:
    told = final().model_copy(update={"usage": TokenUsage(input_tokens=0, total_tokens=7)})
    assert rendered(told)[-1]["meta"]["tokens"] == {"input": 0, "total": 7}


def test_an_interrupted_exchange_ends_with_its_error() -> None:
    info = ErrorInfo(code="interrupted", content="It went away.", retryable=True, request_id="r1")
    [error] = rendered(final(ExchangeStatus.INTERRUPTED, [ASKED], error=info))
    assert error == {
        "type": "error",
        "error": "It went away.",
        "category": "internal",
        "code": "interrupted",
        "retryable": True,
        "requestId": "r1",
        "exchangeId": "e",
    }


def test_a_stream_that_is_cut_has_an_error_of_its_own() -> None:
    renderer = SessionStreamRenderer("r")
    [sent] = renderer.cut(ShuttingDown())
    error = json.loads(str(sent.data))
    assert (error["category"], error["code"], error["requestId"]) == ("internal", "shutting_down", "r")
    assert "exchangeId" not in error
