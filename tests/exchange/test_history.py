"""What a model is given of a session's past: whole exchanges, in the form that providers want."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from support.drafts import Transcript, ai, result, token, update
from support.phrase_model import check_history
from support.streams import interleaved, lanes

from agentic_backend.exchange.past.history import content_of, restore_exchange, restore_exchanges
from agentic_backend.protocol.messages import Channel, MessageMetadata, Role, utc_now
from agentic_backend.protocol.parts import Part, TextPart, ToolCallPart, ToolResultPart
from agentic_backend.stores.records import MessageDraft, MessageRecord, place

NOW = utc_now()


def draft(role: Role, channel: Channel, *parts: Part, **metadata: Any) -> MessageDraft:
    return MessageDraft(role=role, channel=channel, parts=list(parts), metadata=MessageMetadata(**metadata))


def asked(text: str = "What is it?") -> MessageDraft:
    return draft(Role.USER, Channel.FINAL, TextPart(text=text))


def said(text: str, channel: Channel = Channel.FINAL, **metadata: Any) -> MessageDraft:
    return draft(Role.ASSISTANT, channel, TextPart(text=text), **metadata)


def called(*call_ids: str) -> MessageDraft:
    return draft(
        Role.ASSISTANT,
        Channel.TOOL_CALL,
        *[ToolCallPart(call_id=call_id, name="search", args={"q": call_id}) for call_id in call_ids],
    )


def gave(call_id: str, content: str = "found", *, ok: bool = True) -> MessageDraft:
    return draft(Role.TOOL, Channel.TOOL_RESULT, ToolResultPart(call_id=call_id, ok=ok, content=content))


def rows(*drafts: MessageDraft, exchange_id: str = "e", first_rank: int = 0) -> list[MessageRecord]:
    return place(list(drafts), session_id="s", exchange_id=exchange_id, next_rank=first_rank, at=NOW)


def in_short(messages: Sequence[BaseMessage]) -> list[str]:
    """Each message as `type: text -> calls`."""
    return [
        f"{message.type}: {message.text}" + "".join(f" -> {call['id']}" for call in getattr(message, "tool_calls", []))
        for message in messages
    ]


def test_a_question_and_its_answer() -> None:
    restored = restore_exchange(rows(asked("Hi"), said("Hello")))
    assert in_short(restored) == ["human: Hi", "ai: Hello"]
    assert [message.id for message in restored] == ["e:0", "e:1"]


def test_text_and_calls_are_one_message_directly_followed_by_their_results() -> None:
    restored = restore_exchange(
        rows(
            asked(),
            said("Let me see", Channel.OBSERVATION),
            called("c1", "c2"),
            gave("c2", "b"),
            gave("c1", "a"),
            said("So"),
        )
    )
    assert in_short(restored) == ["human: What is it?", "ai: Let me see -> c1 -> c2", "tool: a", "tool: b", "ai: So"]
    [calls] = [message for message in restored if isinstance(message, AIMessage) and message.tool_calls]
    assert calls.tool_calls[0] == {"name": "search", "args": {"q": "c1"}, "id": "c1", "type": "tool_call"}
    results = [message for message in restored if isinstance(message, ToolMessage)]
    assert [(one.tool_call_id, one.name, one.status) for one in results] == [
        ("c1", "search", "success"),
        ("c2", "search", "success"),
    ]


def test_a_text_of_its_own_stays_its_own() -> None:
    alone = said("I hand over", Channel.OBSERVATION, finish_reason="stop")
    restored = restore_exchange(rows(asked(), alone, called("c1"), gave("c1"), said("So")))
    assert in_short(restored) == ["human: What is it?", "ai: I hand over", "ai:  -> c1", "tool: found", "ai: So"]


def test_a_failed_result_is_told_as_such() -> None:
    [_, _, failed] = restore_exchange(rows(asked(), called("c1"), gave("c1", "broke", ok=False)))
    assert isinstance(failed, ToolMessage) and failed.status == "error"


def test_a_call_without_a_result_and_a_result_without_a_call_are_left_out() -> None:
    restored = restore_exchange(
        rows(
            asked(),
            said("Two things", Channel.OBSERVATION),
            called("c1", "lost"),
            gave("c1"),
            gave("stray"),
            said("So"),
        )
    )
    assert in_short(restored) == ["human: What is it?", "ai: Two things -> c1", "tool: found", "ai: So"]


def test_of_calls_without_any_result_the_text_is_left() -> None:
    restored = restore_exchange(rows(asked(), said("Let me see", Channel.OBSERVATION), called("c1")))
    assert in_short(restored) == ["human: What is it?", "ai: Let me see"]


def test_results_move_up_to_their_calls_over_what_was_said_meanwhile() -> None:
    meanwhile = said("While we wait", Channel.OBSERVATION, finish_reason="stop")
    restored = restore_exchange(rows(asked(), called("c1"), meanwhile, called("c2"), gave("c2", "b"), gave("c1", "a")))
    assert in_short(restored) == [
        "human: What is it?",
        "ai:  -> c1",
        "tool: a",
        "ai: While we wait",
        "ai:  -> c2",
        "tool: b",
    ]


def test_a_call_id_that_is_used_again_has_a_result_each_time() -> None:
    restored = restore_exchange(rows(asked(), called("0"), gave("0", "a"), called("0"), gave("0", "b"), said("So")))
    assert in_short(restored) == ["human: What is it?", "ai:  -> 0", "tool: a", "ai:  -> 0", "tool: b", "ai: So"]


def test_a_call_id_that_is_used_again_in_another_exchange_has_that_ones_result() -> None:
    first = rows(asked(), called("0"), said("No answer"), exchange_id="e1")
    second = rows(asked(), called("0"), gave("0"), said("So"), exchange_id="e2", first_rank=3)
    assert in_short([message for one in restore_exchanges([*first, *second]) for message in one]) == [
        "human: What is it?",
        "ai: No answer",
        "human: What is it?",
        "ai:  -> 0",
        "tool: found",
        "ai: So",
    ]


@pytest.mark.parametrize("channel", [Channel.THOUGHT, Channel.PLAN, Channel.ERROR, Channel.SYSTEM_NOTE])
def test_what_is_no_part_of_the_conversation_is_not_seen_again(channel: Channel) -> None:
    hidden = [draft(role, channel, TextPart(text="hidden")) for role in (Role.ASSISTANT, Role.SYSTEM)]
    restored = restore_exchange(rows(asked(), said("Look", Channel.OBSERVATION), *hidden, called("c1"), gave("c1")))
    assert "hidden" not in str(restored)
    assert in_short(restored) == ["human: What is it?", "ai: Look -> c1", "tool: found"]


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_message_without_a_word_is_left_out(text: str) -> None:
    assert in_short(restore_exchange(rows(asked(), said(text)))) == ["human: What is it?"]


def test_before_the_first_calls_there_may_be_no_word_at_all() -> None:
    blank = said("\n", Channel.OBSERVATION)
    restored = restore_exchange(rows(asked(" "), blank, called("c1"), gave("c1"), said("So")))
    assert in_short(restored) == ["ai:  -> c1", "tool: found", "ai: So"]


def test_what_only_a_sub_agent_had_is_left_out() -> None:
    transcript = Transcript(
        update(ai("", "m1", ("c1", "delegate"))),
        token("Secret", "i1", within=("tools:1",), last=True),
        update(ai("Secret", "i1"), within=("tools:1",)),
        update(result("c1", "Report"), node="tools"),
        update(ai("So it is", "m2")),
    ).finish()
    restored = restore_exchange(rows(asked(), *transcript.messages))
    assert in_short(restored) == ["human: What is it?", "ai:  -> c1", "tool: Report", "ai: So it is"]


def test_what_a_parent_took_over_from_its_subgraph_is_kept() -> None:
    within = ("worker:1",)
    calls, found = ai("Look", "i1", ("c1", "search")), ai("Found", "i2")
    transcript = Transcript(
        update(calls, within=within),
        update(result("c1"), within=within, node="tools"),
        update(found, within=within),
        update(calls, result("c1"), found, node="worker"),
        update(ai("So it is", "m2")),
    ).finish()
    restored = restore_exchange(rows(asked(), *transcript.messages))
    assert in_short(restored) == ["human: What is it?", "ai: Look -> c1", "tool: done", "ai: Found", "ai: So it is"]


def test_what_a_parent_handed_on_as_its_own_is_kept() -> None:
    """Before the row of its subgraph is stored, and after it."""
    within = ("worker:1",)
    transcript = Transcript(
        update(ai("Early", "i1"), within=within),
        update(AIMessage("Early", id="p1"), node="worker"),
        update(ai("Late", "i2"), within=within),
        update(ai("Secret", "i3"), within=within),
        update(AIMessage("Late", id="p2"), node="worker"),
        update(ai("So it is", "m2")),
    ).finish()
    restored = restore_exchange(rows(asked(), *transcript.messages))
    assert in_short(restored) == ["human: What is it?", "ai: Early", "ai: Late", "ai: So it is"]


@st.composite
def exchanges(draw: st.DrawFn) -> list[MessageDraft]:
    """What any graph gives, cut anywhere, as it is stored."""
    parts = draw(interleaved(draw(lanes())))
    transcript = Transcript(*parts[: draw(st.integers(0, len(parts)))])
    return [asked(), *(transcript.finish() if draw(st.booleans()) else transcript.close()).messages]


@given(st.lists(exchanges(), min_size=1, max_size=3))
@settings(max_examples=60)
def test_a_provider_accepts_whatever_was_stored(stored: list[list[MessageDraft]]) -> None:
    restored = [
        message
        for number, drafts in enumerate(stored)
        for message in restore_exchange(rows(*drafts, exchange_id=f"e{number}"))
    ]
    check_history([*restored, HumanMessage("And now?")])
    assert len(convert_to_openai_messages(restored)) == len(restored)


MINTED = [
    "77a6639a95974a4caa1739c2a22b8d04:3",
    "0f0e5f5e-6a3f-4f0c-9c5b-3a3c3f1f2a77",
    "run--0f0e5f5e-6a3f-4f0c-9c5b-3a3c3f1f2a77-0",
    "lc_run--019acf2b-7c11-7d52-9f0b-1c2d3e4f5a6b",
    "chatcmpl-CgYB1n2WzqkVJ3eH8sR0tXoPaLmNd",
    "msg_01XFDUDYJgAACzvnptvVoYEL",
]
CALL = {"id": "1", "name": "search", "args": {"q": "cats"}}


@pytest.mark.parametrize(
    "more",
    [
        AIMessage("a", additional_kwargs={"reasoning_content": "thinking"}),
        AIMessage("a", response_metadata={"source": "an author's own"}),
        AIMessage("a", invalid_tool_calls=[{"id": "1", "name": "search", "args": "{", "error": None}]),
        HumanMessage("a", response_metadata={"model_provider": "not of a person"}),
        ToolMessage("a", tool_call_id="1", artifact=["a page"]),
        AIMessageChunk("a"),
        AIMessage("a", verdict="good"),
        AIMessage("a", additional_kwargs={"step": 0}),
        AIMessage("a", id="status"),
        AIMessage("a", id="summary-of-the-session-1"),
        RemoveMessage("a"),
        {"role": "user", "content": "a"},
    ],
)
def test_a_message_that_holds_more_than_the_transcript_says_is_told(more: Any) -> None:
    if isinstance(more, BaseMessage):
        more.id = more.id or MINTED[0]
    assert content_of(more) is None


@pytest.mark.parametrize("message_id", MINTED)
def test_ids_that_nobody_has_chosen_are_left_aside(message_id: str) -> None:
    assert content_of(AIMessage("a", id=message_id)) == content_of(AIMessage("a", id=MINTED[0]))
    assert content_of(AIMessage("a", id=message_id)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HumanMessage("a"), AIMessage("a")),
        (HumanMessage("a"), HumanMessage("b")),
        (HumanMessage("a"), HumanMessage("a", name="ann")),
        (AIMessage("a"), AIMessage([{"type": "text", "text": "a"}])),
        (AIMessage("a", tool_calls=[CALL]), AIMessage("a")),
        (AIMessage("", tool_calls=[CALL]), AIMessage("", tool_calls=[{**CALL, "id": "2"}])),
        (AIMessage("", tool_calls=[CALL]), AIMessage("", tool_calls=[{**CALL, "args": {"q": "dogs"}}])),
        (ToolMessage("a", tool_call_id="1"), ToolMessage("a", tool_call_id="2")),
        (ToolMessage("a", tool_call_id="1"), ToolMessage("a", tool_call_id="1", status="error")),
    ],
)
def test_messages_that_say_different_things_differ(one: BaseMessage, other: BaseMessage) -> None:
    for message in (one, other):
        message.id = MINTED[0]
    assert content_of(one) != content_of(other)


def test_what_is_changed_in_place_was_said_before() -> None:
    call = {**CALL, "args": {"q": ["cats"]}}
    message = AIMessage([{"type": "text", "text": "a"}], tool_calls=[call], id=MINTED[0])
    before = content_of(message)
    message.tool_calls[0]["args"]["q"].append("dogs")
    called = content_of(message)
    assert isinstance(message.content, list) and isinstance(message.content[0], dict)
    message.content[0]["text"] = "b"
    assert before != called != content_of(message)


@pytest.mark.parametrize(
    "message", [AIMessage("a", tool_calls=[CALL]), ToolMessage("a", tool_call_id="1", name="search")]
)
def test_ids_and_what_a_provider_tells_of_its_call_are_left_aside(message: BaseMessage) -> None:
    message.id = MINTED[0]
    same = message.model_copy(update={"id": MINTED[1], "additional_kwargs": {"refusal": None}})
    assert content_of(same) == content_of(message)
    assert content_of(message) is not None
    if isinstance(same, AIMessage):
        same.response_metadata = {"model_provider": "openai", "finish_reason": "stop"}
        same.usage_metadata = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        assert content_of(same) == content_of(message)
