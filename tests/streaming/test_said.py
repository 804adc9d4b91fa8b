"""How much a model may say, and what it is told of by."""

from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call, tool_call_chunk

from agentic_backend.errors import LimitReached, ModelError
from agentic_backend.streaming.content import usage_of
from agentic_backend.streaming.said import MOST_ARGUMENTS_BYTES, MOST_CALLS, MOST_EMPTY, Said


def test_a_call_may_say_so_much_and_all_calls_together_so_much() -> None:
    said, first, second = Said(10, 15), uuid4(), uuid4()
    said.add(first, AIMessageChunk("a" * 10))
    with pytest.raises(LimitReached, match="10 bytes"):
        said.add(first, AIMessageChunk("a"))
    said.end(first)
    with pytest.raises(LimitReached, match="15 bytes"):
        said.add(second, AIMessageChunk("a" * 5))


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
        Said(10, 1_000).add(uuid4(), chunk)


def test_only_so_many_calls_are_made_at_once() -> None:
    said, call = Said(), uuid4()
    for index in range(MOST_CALLS):
        said.add(
            call, AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="x", args="{}", id=f"c{index}", index=0)])
        )
    with pytest.raises(ModelError, match="calls at once"):
        said.add(call, AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="x", args="{}", id="c", index=0)]))
    whole = AIMessage("", tool_calls=[tool_call(name="x", args={}, id=f"c{index}") for index in range(MOST_CALLS + 1)])
    with pytest.raises(ModelError, match="calls at once"):
        said.add(uuid4(), whole)


def test_arguments_are_bounded() -> None:
    piece = tool_call_chunk(name=None, args="1" * (MOST_ARGUMENTS_BYTES + 1), id=None, index=0)
    with pytest.raises(ModelError, match="arguments"):
        Said().add(uuid4(), AIMessageChunk("", tool_call_chunks=[piece]))


def test_only_so_many_empty_pieces_come_in_a_row() -> None:
    said, call = Said(), uuid4()
    for _ in range(3):
        for _ in range(MOST_EMPTY):
            said.add(call, AIMessageChunk(""))
        said.add(call, AIMessageChunk("a"))
    for _ in range(MOST_EMPTY):
        said.add(call, AIMessageChunk(""))
    with pytest.raises(ModelError, match="without saying anything"):
        said.add(call, AIMessageChunk(""))


@pytest.mark.parametrize(("told", "counted"), [(-5, 0), (2**62, 10**9), (7, 7)])
def test_numbers_of_tokens_stay_within_what_can_be_one(told: int, counted: int) -> None:
    usage = {"input_tokens": told, "output_tokens": told, "total_tokens": told}
    found = usage_of(AIMessage("", usage_metadata=usage))
    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (counted, counted, counted)
