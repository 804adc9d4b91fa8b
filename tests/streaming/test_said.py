"""How much a model may say, and what it is told of by."""

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call, tool_call_chunk

from agentic_backend.errors import LimitReached, ModelError
from agentic_backend.streaming.content.conversion import usage_of
from agentic_backend.streaming.model.said import MOST_ARGUMENTS_BYTES, MOST_CALLS, MOST_EMPTY, Said, SaidByCall


def test_a_call_may_say_so_much_and_all_calls_together_so_much() -> None:
    said = Said(10, 15)
    first, second = SaidByCall(said), SaidByCall(said)
    first.add(AIMessageChunk("a" * 10))
    with pytest.raises(LimitReached, match="10 bytes"):
        first.add(AIMessageChunk("a"))
    with pytest.raises(LimitReached, match="15 bytes"):
        second.add(AIMessageChunk("a" * 5))


@pytest.mark.parametrize(
    "chunk",
    [
        AIMessageChunk("\u00e4" * 6),
        AIMessageChunk([{"type": "text", "text": "a" * 11, "index": 0}]),
        AIMessageChunk("", additional_kwargs={"reasoning_content": "a" * 11}),
        AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name=None, args="a" * 11, id=None, index=0)]),
        AIMessage("a" * 11),
        AIMessage("", tool_calls=[tool_call(name="x", args={"a": "a" * 11}, id="c")]),
    ],
)
def test_whatever_is_said_counts(chunk: AIMessage) -> None:
    with pytest.raises(LimitReached):
        SaidByCall(Said(10, 1_000)).add(chunk)


def test_only_so_many_calls_are_made_at_once() -> None:
    call = SaidByCall(Said())
    for index in range(MOST_CALLS):
        call.add(AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="x", args="{}", id=f"c{index}", index=0)]))
    with pytest.raises(ModelError, match="calls at once"):
        call.add(AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="x", args="{}", id="c", index=0)]))
    whole = AIMessage("", tool_calls=[tool_call(name="x", args={}, id=f"c{index}") for index in range(MOST_CALLS + 1)])
    with pytest.raises(ModelError, match="calls at once"):
        SaidByCall(Said()).add(whole)


def test_arguments_are_bounded() -> None:
    piece = tool_call_chunk(name=None, args="1" * (MOST_ARGUMENTS_BYTES + 1), id=None, index=0)
    with pytest.raises(ModelError, match="arguments"):
        SaidByCall(Said()).add(AIMessageChunk("", tool_call_chunks=[piece]))


@pytest.mark.parametrize(
    "empty",
    [AIMessageChunk(""), AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name=None, args="", id=None, index=0)])],
)
def test_only_so_many_empty_pieces_come_in_a_row(empty: AIMessageChunk) -> None:
    call = SaidByCall(Said())
    for _ in range(3):
        for _ in range(MOST_EMPTY):
            call.add(empty)
        call.add(AIMessageChunk("a"))
    for _ in range(MOST_EMPTY):
        call.add(empty)
    with pytest.raises(ModelError, match="without saying anything"):
        call.add(empty)


@pytest.mark.parametrize(("told", "counted"), [(2**62, 10**9), (7, 7)])
def test_numbers_of_tokens_stay_within_what_can_be_one(told: int, counted: int) -> None:
    usage = {"input_tokens": told, "output_tokens": told, "total_tokens": told}
    found = usage_of(AIMessage("", usage_metadata=usage))
    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (counted, counted, counted)


@pytest.mark.parametrize("told", [0, -5])
def test_a_provider_that_counts_no_token_has_counted_nothing(told: int) -> None:
    usage = {"input_tokens": told, "output_tokens": told, "total_tokens": told}
    assert usage_of(AIMessage("", usage_metadata=usage)) is None
