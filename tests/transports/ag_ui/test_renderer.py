"""The renderer of AG-UI's runs, event by event."""

from collections.abc import Sequence
from typing import Any

from support.protocol_samples import AT

from agentic_backend.errors import TokenExpired
from agentic_backend.protocol.events import Activity, Delta, Event, Final, PartialText, Reset, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import Part, TextPart, ToolCallPart, ToolResultPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.transports.ag_ui.renderer import RunRenderer

PLACE: dict[str, Any] = {"session_id": "s", "exchange_id": "e"}
BEFORE = [{"id": "1", "role": "user", "content": "hello"}]


def message(rank: int, role: Role, channel: Channel, *parts: Part) -> ChatMessage:
    return ChatMessage(**PLACE, rank=rank, timestamp=AT, role=role, channel=channel, parts=list(parts))


ASKED = message(0, Role.USER, Channel.FINAL, TextPart(text="hello"))
CALLED = message(1, Role.ASSISTANT, Channel.TOOL_CALL, ToolCallPart(call_id="c", name="look_up", args={"a": None}))
FOUND = message(2, Role.TOOL, Channel.TOOL_RESULT, ToolResultPart(call_id="c", ok=True, content="found"))
ANSWER = message(3, Role.ASSISTANT, Channel.FINAL, TextPart(text="It is there."))


def delta(text: str, block: int = 0, channel: Channel = Channel.FINAL) -> Delta:
    return Delta(**PLACE, seq=5, block=block, channel=channel, text=text)


def stream(shown: ChatMessage, block: int | None = None) -> Stream:
    return Stream(**PLACE, seq=5, message=shown, block=block)


def final(*messages: ChatMessage, status: ExchangeStatus = ExchangeStatus.OK) -> Final:
    return Final(**PLACE, seq=9, status=status, messages=list(messages), session=None, usage=TokenUsage())


def renderer(known: Sequence[ChatMessage] = ()) -> RunRenderer:
    named = {"thread_id": "t", "run_id": "r"}
    return RunRenderer(named, ExchangeLog("s", "e"), known, lambda: BEFORE, "request")


def rendered(*events: Event, by: RunRenderer | None = None) -> list[dict[str, Any]]:
    by = by or renderer()
    return [shown.model_dump(mode="json") for event in events for shown in by.render(event)]


def types(shown: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in shown]


TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
CALL = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success"}, "usage": [{}]}


def test_what_is_stored_is_shown_whole_and_once() -> None:
    shown = rendered(*map(stream, (ASKED, CALLED, FOUND, ANSWER)), final(ASKED, CALLED, FOUND, ANSWER))
    assert types(shown) == [*CALL, "TOOL_CALL_RESULT", *TEXT, "RUN_FINISHED"]
    assert shown[1] == {"type": "TOOL_CALL_ARGS", "toolCallId": "e:c", "delta": '{"a":null}'}
    assert shown[-1] == FINISHED


def test_texts_that_are_written_at_once_are_messages_of_their_own() -> None:
    shown = rendered(
        delta("It is "), delta("hm", 1, Channel.THOUGHT), delta("there."), stream(ANSWER, 0), final(ANSWER)
    )
    texts = {event["messageId"] for event in shown if event["type"].startswith("TEXT_MESSAGE")}
    thoughts = {event["messageId"] for event in shown if event["type"].startswith("REASONING")}
    assert (len(texts), len(thoughts)) == (1, 1) and texts != thoughts
    assert "".join(event["delta"] for event in shown if event["type"] == "TEXT_MESSAGE_CONTENT") == "It is there."


def test_a_text_that_a_module_has_changed_is_put_right_by_a_snapshot() -> None:
    shown = rendered(delta("It is secret."), stream(ANSWER, 0), final(ASKED, ANSWER))
    assert types(shown) == [*TEXT, "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    answer = {"id": shown[0]["messageId"], "role": "assistant", "content": "It is there."}
    assert shown[-2]["messages"] == [*BEFORE, answer]


def test_a_text_that_is_never_stored_is_not_in_the_snapshot() -> None:
    blocked = final(ASKED, ANSWER, status=ExchangeStatus.BLOCKED)
    [*shown, snapshot, finished] = rendered(delta("It is secret."), blocked)
    assert types(shown) == [*TEXT, *TEXT] and finished == FINISHED
    [_, answer] = snapshot["messages"]
    assert answer["content"] == "It is there."


def test_a_stopped_run_is_cancelled_and_a_failed_one_an_error() -> None:
    [*_, stopped] = rendered(delta("It"), final(ASKED, status=ExchangeStatus.STOPPED))
    assert stopped["outcome"] == {"type": "cancelled"}
    failed = rendered(delta("It"), final(ASKED, status=ExchangeStatus.ERROR))
    assert types(failed) == [*TEXT, "RUN_ERROR"]


def test_what_graphs_within_a_tool_say_is_not_shown() -> None:
    within = message(2, Role.ASSISTANT, Channel.OBSERVATION, TextPart(text="inner"))
    shown = rendered(stream(CALLED), delta("inner", 0, Channel.OBSERVATION), stream(within, 0), final(CALLED, within))
    assert types(shown) == [*CALL, "RUN_FINISHED"]


def test_after_a_reset_the_client_has_all_of_it_once() -> None:
    by = renderer()
    assert types(rendered(delta("It "), by=by)) == TEXT[:2]
    partial = [PartialText(block=0, channel=Channel.FINAL, text="It is")]
    reset = Reset(**PLACE, seq=7, messages=[ASKED, CALLED, FOUND], partial=partial)
    ended, snapshot, *again = rendered(reset, by=by)
    assert (ended["type"], snapshot["type"], types(again)) == (TEXT[2], "MESSAGES_SNAPSHOT", TEXT[:2])
    assert [each["role"] for each in snapshot["messages"]] == ["user", "assistant", "tool"]
    rest = rendered(delta(" there."), stream(ANSWER, 0), final(ASKED, CALLED, FOUND, ANSWER), by=by)
    assert types(rest) == [*TEXT[1:], "RUN_FINISHED"]


def test_what_a_client_has_of_a_resumed_run_is_not_shown_again() -> None:
    shown = rendered(*map(stream, (FOUND, ANSWER)), final(ASKED, CALLED, FOUND, ANSWER), by=renderer([ASKED, CALLED]))
    assert types(shown) == ["TOOL_CALL_RESULT", *TEXT, "RUN_FINISHED"]


def test_progress_is_an_activity() -> None:
    [shown] = rendered(Activity(**PLACE, seq=2, kind="progress", data={"step": "Looking"}))
    assert (shown["activityType"], shown["content"]) == ("progress", {"step": "Looking"})


def test_a_stream_that_is_cut_says_why() -> None:
    by = renderer()
    rendered(delta("It"), by=by)
    assert [(each.type, getattr(each, "code", None)) for each in by.cut(TokenExpired())] == [
        ("TEXT_MESSAGE_END", None),
        ("RUN_ERROR", "token_expired"),
    ]
