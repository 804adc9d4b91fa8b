"""How an exchange ends, from lists: its last messages, its end, its KPIs; whether it ran here or nobody ran it."""

from collections.abc import Sequence
from typing import Any

import pytest

from agentic_backend.errors import Internal
from agentic_backend.exchange.end.ending import Progress, closing_of_stored, ending_of, left_open
from agentic_backend.exchange.lifecycle import INTERRUPTED, OK, STOPPED, Outcome
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, FinishReason, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart, text_of
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, MessageRecord, place
from agentic_backend.streaming.transcode.drafts import CompleteDraft

FAILED = Outcome(ExchangeStatus.ERROR, Internal("Oh."))
USAGE = TokenUsage(input_tokens=3, output_tokens=4, total_tokens=7)


def record(**fields: Any) -> ExchangeRecord:
    names = {"id": "e", "session_id": "s", "user_id": "u", "agent_id": "a", "request_id": "r", "started_at": utc_now()}
    return ExchangeRecord(**{**names, **fields})


def said(text: str, channel: Channel = Channel.FINAL) -> MessageDraft:
    return MessageDraft(role=Role.ASSISTANT, channel=channel, parts=[TextPart(text=text)])


def call(call_id: str, name: str = "look") -> MessageDraft:
    parts = [ToolCallPart(call_id=call_id, name=name, args={})]
    return MessageDraft(role=Role.ASSISTANT, channel=Channel.TOOL_CALL, parts=parts)


def result(call_id: str, *, ok: bool = True) -> MessageDraft:
    parts = [ToolResultPart(call_id=call_id, ok=ok, content="done")]
    return MessageDraft(role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=parts)


def placed(*drafts: MessageDraft) -> list[MessageRecord]:
    return place(list(drafts), session_id="s", exchange_id="e", next_rank=0, at=utc_now())


def progress(messages: Sequence[MessageDraft] = (), closing: Sequence[MessageDraft] = (), **fields: Any) -> Progress:
    known: dict[str, Any] = {"last_seq": 5, "ran_ms": 1200, "first_token_ms": 300, "usage": USAGE, **fields}
    return Progress(messages=messages, closing=[CompleteDraft(draft, None) for draft in closing], **known)


def told(drafts: Sequence[CompleteDraft]) -> list[tuple[str, str]]:
    return [
        (str(draft.message.channel), text_of(draft.message.parts) or str(draft.message.parts[0])) for draft in drafts
    ]


def test_what_went_well_ends_with_its_last_messages_and_no_error() -> None:
    ending = ending_of(record(), OK, progress(placed(said("Hi")), [said("Hello.")], session_state=b"state"))
    assert told(ending.drafts) == [("final", "Hello.")]
    assert (ending.end.status, ending.end.error, ending.end.usage) == (ExchangeStatus.OK, None, USAGE)
    assert ending.end.session_state == b"state"
    assert ending.end.last_seq == 5 + 1 + 1, "the message and the final"


def test_a_failure_leaves_a_message_behind_all_others_and_is_told_before_the_final() -> None:
    ending = ending_of(record(), FAILED, progress(closing=[said("Hel")]))
    assert told(ending.drafts) == [("final", "Hel"), ("error", "Oh.")]
    assert ending.drafts[-1].message.metadata.extras == {"code": "internal", "request_id": "r"}
    assert ending.end.error is not None and ending.end.error.code == "internal"
    assert ending.end.last_seq == 5 + 2 + 2, "two messages, the error and the final"


@pytest.mark.parametrize(
    ("status", "server_went_away", "left"),
    [
        (ExchangeStatus.STOPPED, False, (FinishReason.CANCELLED, "Stopped before it gave a result.")),
        (ExchangeStatus.STOPPED, True, (FinishReason.CANCELLED, "Stopped before it gave a result.")),
        (ExchangeStatus.ERROR, False, (FinishReason.OTHER, "The exchange failed before it gave a result.")),
        (ExchangeStatus.INTERRUPTED, False, (FinishReason.OTHER, "The exchange failed before it gave a result.")),
        (ExchangeStatus.INTERRUPTED, True, (FinishReason.OTHER, "The server went away before the tool gave a result.")),
    ],
)
def test_what_is_left_open_says_why(
    status: ExchangeStatus, server_went_away: bool, left: tuple[FinishReason, str]
) -> None:
    assert left_open(status, server_went_away=server_went_away) == left


def test_the_kpis_count_the_calls_of_all_messages_and_those_that_failed() -> None:
    messages = placed(call("1"), result("1"), call("2", "write"), result("2", ok=False), call("3"))
    closing = closing_of_stored("a", messages, (), ExchangeStatus.INTERRUPTED)
    stored = progress(messages, [draft.message for draft in closing], model="m")
    kpi = ending_of(record(), INTERRUPTED, stored).end.kpi
    assert kpi is not None
    assert (kpi.tools, kpi.failed_tools) == (["look", "write", "look"], 2)
    assert (kpi.latency_ms, kpi.first_token_ms, kpi.usage, kpi.model) == (1200, 300, USAGE, "m")
    assert (kpi.exchange_id, kpi.session_id, kpi.user_id, kpi.agent_id) == ("e", "s", "u", "a")


def test_a_query_has_kpis_without_a_session() -> None:
    kpi = ending_of(record(session_id=""), OK, progress()).end.kpi
    assert kpi is not None and kpi.session_id is None


@pytest.mark.parametrize(
    ("outcome", "reason", "content"),
    [
        (STOPPED, FinishReason.CANCELLED, "Stopped before it gave a result."),
        (INTERRUPTED, FinishReason.OTHER, "The server went away before the tool gave a result."),
    ],
)
def test_what_nobody_runs_is_completed_from_what_is_stored(
    outcome: Outcome, reason: FinishReason, content: str
) -> None:
    messages = placed(said("Hi"), call("1"), result("1"), call("2"))
    partial = [
        PartialText(block=0, channel=Channel.THOUGHT, text="Hmm"),
        PartialText(block=1, channel=Channel.FINAL, text="first"),
        PartialText(block=2, channel=Channel.FINAL, text=""),
        PartialText(block=3, channel=Channel.FINAL, text="last"),
    ]
    drafts = closing_of_stored("a", messages, partial, outcome.status)
    assert [str(draft.message.channel) for draft in drafts] == ["thought", "observation", "tool_result", "final"]
    [answer] = drafts[2].message.parts
    assert isinstance(answer, ToolResultPart)
    assert (answer.call_id, answer.ok, answer.content) == ("2", False, content)
    assert text_of(drafts[-1].message.parts) == "last"
    assert drafts[-1].message.metadata.finish_reason is reason
    assert [draft.block for draft in drafts] == [0, 1, None, 3], "each text ends its block"
    assert {draft.message.metadata.agent_id for draft in drafts} == {"a"}


def test_a_thought_alone_is_no_final() -> None:
    partial = [PartialText(block=0, channel=Channel.THOUGHT, text="Hmm")]
    assert told(closing_of_stored("a", [], partial, ExchangeStatus.STOPPED)) == [("thought", "Hmm")]
