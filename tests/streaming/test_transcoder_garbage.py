"""What no sane graph gives: none of it raises, and all that comes of it can be stored, sent and read back."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.messages.block_translators import PROVIDER_TRANSLATORS
from langgraph.types import Interrupt
from support.drafts import Transcript

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.events import Activity, AwaitingHuman
from agentic_backend.protocol.messages import ChatMessage, FinishReason
from agentic_backend.stores.records import MessageDraft, place
from agentic_backend.streaming.transcode.drafts import ActivityDraft, CompleteDraft
from agentic_backend.streaming.transcode.stream_transcoder import StreamTranscoder
from agentic_backend.text.normal_form import clean


class Odd:
    """What JSON knows nothing of."""


CHARACTERS = st.one_of(st.characters(), st.characters(categories=["Cs"]))
TEXTS = st.text(CHARACTERS, max_size=6)
# The border of the graph lets no others through, and ids are not cleaned again.
CALL_IDS = TEXTS.map(clean)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(2**70),
    st.floats(),
    TEXTS,
    st.binary(max_size=3),
    st.builds(Odd),
)
ANYTHING = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(TEXTS, st.integers(), st.none(), st.tuples(TEXTS)), inner, max_size=3),
    ),
    max_leaves=8,
)
BLOCK_TYPES = st.sampled_from(
    "text reasoning thinking image image_url tool_use tool_call tool_call_chunk output_text server_tool_call "
    "non_standard citation input_json_delta refusal file video what".split()
)
BLOCK_FIELDS = st.sampled_from(
    "text reasoning thinking url id args name index summary annotations source value".split()
)
BLOCKS = st.builds(
    lambda kind, fields: {"type": kind, **fields}, BLOCK_TYPES, st.dictionaries(BLOCK_FIELDS, ANYTHING, max_size=3)
)
CONTENT = st.one_of(
    TEXTS, st.lists(st.one_of(TEXTS, BLOCKS, st.dictionaries(BLOCK_FIELDS, ANYTHING, max_size=2)), max_size=3)
)
METADATA = st.one_of(
    st.fixed_dictionaries({"model_provider": st.sampled_from(sorted(PROVIDER_TRANSLATORS))}),
    st.fixed_dictionaries({"output_version": st.just("v1")}),
    st.dictionaries(st.sampled_from(["finish_reason", "stop_reason", "model_name", "model"]), ANYTHING, max_size=3),
)
CALLS = st.lists(
    st.builds(
        lambda name, args, call_id: {"name": name, "args": args, "id": call_id, "type": "tool_call"},
        TEXTS,
        st.dictionaries(TEXTS, ANYTHING, max_size=2),
        st.one_of(st.none(), CALL_IDS),
    ),
    max_size=2,
)
INVALID_CALLS = st.lists(
    st.builds(
        lambda name, args, call_id: {
            "name": name,
            "args": args,
            "id": call_id,
            "error": None,
            "type": "invalid_tool_call",
        },
        *[st.one_of(st.none(), TEXTS)] * 2,
        st.one_of(st.none(), CALL_IDS),
    ),
    max_size=2,
)
IDS = st.one_of(st.none(), st.sampled_from(["", "m1", "m2"]))


@st.composite
def model_messages(draw: st.DrawFn, kind: type[AIMessage]) -> AIMessage:
    message = kind(
        draw(CONTENT),
        id=draw(IDS),
        response_metadata=draw(METADATA),
        additional_kwargs=draw(st.dictionaries(st.just("reasoning_content"), ANYTHING, max_size=1)),
    )
    message.tool_calls, message.invalid_tool_calls = draw(CALLS), draw(INVALID_CALLS)
    return message


@st.composite
def parts(draw: st.DrawFn) -> StreamPart:
    within = draw(st.sampled_from([(), ("a:1",), ("\ud800",)]))
    node = draw(st.sampled_from(["model", "tools", "\ud800"]))
    match draw(st.sampled_from(["token", "whole", "update", "result", "loose update", "custom", "other"])):
        case "token":
            chunk = draw(model_messages(AIMessageChunk))
            assert isinstance(chunk, AIMessageChunk)
            chunk.chunk_position = draw(st.sampled_from([None, "last"]))
            return within, "messages", (chunk, {"langgraph_node": node})
        case "whole":
            return within, "messages", (draw(model_messages(AIMessage)), {"langgraph_node": node})
        case "update":
            return within, "updates", {node: {"messages": [draw(model_messages(AIMessage))]}}
        case "result":
            content: Any = draw(CONTENT)
            result = ToolMessage(content, tool_call_id=draw(CALL_IDS), id=draw(IDS))
            return within, "updates", {node: {"messages": [result]}}
        case "loose update":
            messages = draw(st.one_of(ANYTHING, st.lists(ANYTHING, max_size=2)))
            return within, "updates", {node: draw(st.one_of(ANYTHING, st.just({"messages": messages})))}
        case "custom":
            return within, "custom", draw(ANYTHING)
        case _:
            return within, draw(st.sampled_from(["values", "debug", "tasks"])), draw(ANYTHING)


def shown_of(draft: MessageDraft) -> ChatMessage:
    [message] = place([draft], session_id=None, exchange_id="e", next_rank=0, at=datetime(2026, 1, 1, tzinfo=UTC))
    return message.shown()


def read_back(draft: MessageDraft) -> ChatMessage:
    return ChatMessage.model_validate_json(shown_of(draft).model_dump_json())


@given(st.lists(parts(), max_size=6), st.booleans())
@settings(max_examples=200)
def test_no_stream_raises_and_what_comes_of_it_can_be_read_back(stream: list[StreamPart], finished: bool) -> None:
    transcript = Transcript(*stream)
    transcoder = transcript.transcoder
    drafts = transcript.drafts
    drafts += transcoder.finish(9.0) if finished else transcoder.close(9.0, FinishReason.OTHER, "Stopped.")
    for draft in drafts:
        if isinstance(draft, CompleteDraft):
            read_back(draft.message)
        elif isinstance(draft, ActivityDraft):
            Activity.model_validate_json(
                Activity(session_id=None, exchange_id="e", seq=1, kind=draft.kind, data=draft.data).encode()
            )


INTERRUPT_FIELDS = st.sampled_from(
    ["action_requests", "review_configs", "question", "message", "title", "choices", "options"]
)


@given(st.one_of(ANYTHING, st.dictionaries(INTERRUPT_FIELDS, st.one_of(ANYTHING, st.lists(ANYTHING, max_size=2)))))
@settings(max_examples=150)
def test_no_interrupt_raises_and_each_can_be_answered(value: Any) -> None:
    transcoder = StreamTranscoder("agent", [], 0.0)
    transcoder.feed(((), "updates", {"__interrupt__": (Interrupt(value, id="i1"),)}), 1.0)
    waiting = transcoder.waiting
    assert waiting is not None and waiting.requests
    AwaitingHuman.model_validate_json(AwaitingHuman(session_id=None, exchange_id="e", seq=1, payload=waiting).encode())


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize("depth", [50, 99, 150, 250, 2_000, 100_000])
def test_arguments_of_any_depth_can_be_read_back(depth: int) -> None:
    call = {"name": "a", "args": nested(depth), "id": "c1", "type": "tool_call"}
    message = AIMessage("")
    message.tool_calls = [call]
    [draft] = StreamTranscoder("agent", [], 0.0).feed(((), "updates", {"model": {"messages": [message]}}), 1.0)
    assert isinstance(draft, CompleteDraft)
    assert read_back(draft.message) == shown_of(draft.message)
