"""What is folded adds up to what LangChain adds up by itself, and leaves alone what belongs to others."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from support.further_cases import further

from agentic_backend.streaming.model.chunk_folding import ChunkFolding

CHUNKS = 1_000 + 64 * 64 + 70


def text(number: int) -> dict[str, Any]:
    return {"content": f"{number} "}


def block(number: int) -> dict[str, Any]:
    kind = "text" if number % 1_000 else "thinking"
    return {"content": [{"type": kind, kind: f"{number} ", "index": number // 1_000}]}


def thought(number: int) -> dict[str, Any]:
    return {"content": "", "additional_kwargs": {"reasoning_content": f"{number} "}}


def mixed(number: int) -> dict[str, Any]:
    return random.Random(number).choice([text, block, thought, call, told])(number)


def call(number: int) -> dict[str, Any]:
    if number % 100:
        return text(number)
    called = tool_call_chunk(name="search", args=f'{{"at": {number}}}', id=f"c{number}", index=number)
    return {"content": "", "tool_call_chunks": [called]}


def told(number: int) -> dict[str, Any]:
    usage = UsageMetadata(input_tokens=0, output_tokens=1, total_tokens=1)
    metadata = {"model_provider": "p", "at": number} if number % 7 == 0 else {"model_provider": "p"}
    return {"content": f"{number} ", "usage_metadata": usage, "response_metadata": metadata}


def chunks_of(fields: Callable[[int], dict[str, Any]]) -> list[ChatGenerationChunk]:
    chunks = [ChatGenerationChunk(message=AIMessageChunk(id="lc_run--1", **fields(n))) for n in range(CHUNKS)]
    return [*chunks, ChatGenerationChunk(message=AIMessageChunk("", id="p-1", chunk_position="last"))]


def collected(given: list[ChatGenerationChunk], looks: Callable[[int], Sequence[int]] = lambda number: ()) -> AIMessage:
    """What LangChain makes of chunks that come one by one; each is in its hands, and then in nobody else's.

    While a chunk comes, somebody else looks at those with the numbers that `looks` gives for its number.
    """
    folding, kept = ChunkFolding(), []
    given.reverse()
    while given:
        seen = [kept[number] for number in looks(len(kept))]
        chunk = given.pop()
        folding.add(chunk)
        kept.append(chunk)
        seen.clear()
    message = generate_from_stream(iter(kept)).generations[0].message
    assert isinstance(message, AIMessage)
    return message


@pytest.mark.parametrize("fields", [text, block, thought, call, told, mixed])
def test_folded_chunks_add_up_to_the_same_message(fields: Callable[[int], dict[str, Any]]) -> None:
    assert collected(chunks_of(fields)) == generate_from_stream(iter(chunks_of(fields))).generations[0].message


@pytest.mark.parametrize("fields", [text, told])
def test_the_list_of_a_very_long_answer_stays_short(fields: Callable[[int], dict[str, Any]]) -> None:
    folding, kept = ChunkFolding(), list[ChatGenerationChunk]()
    for number in range(60_000):
        chunk = ChatGenerationChunk(message=AIMessageChunk(id="lc_run--1", **fields(number)))
        folding.add(chunk)
        kept.append(chunk)
    assert len(kept) < 20_000
    message = generate_from_stream(iter(kept)).generations[0].message
    assert message.content == "".join(f"{number} " for number in range(60_000))


def test_chunks_that_a_model_keeps_are_left_alone() -> None:
    kept = chunks_of(text)
    again = collected([kept[0]] * CHUNKS)
    assert again.content == "0 " * CHUNKS
    collected(list(kept))
    assert "".join(str(chunk.message.content) for chunk in kept) == "".join(f"{n} " for n in range(CHUNKS))


@pytest.mark.parametrize("seed", [*range(3), *map(further, range(3, 10))])
@pytest.mark.parametrize("fields", [text, mixed])
def test_chunks_that_somebody_looks_at_meanwhile_keep_their_order(
    fields: Callable[[int], dict[str, Any]], seed: int
) -> None:
    chance = random.Random(seed)

    def looks(number: int) -> Sequence[int]:
        return [chance.randrange(number) for _ in range(3)] if number and not chance.randrange(4) else ()

    message = collected(chunks_of(fields), looks)
    assert message == generate_from_stream(iter(chunks_of(fields))).generations[0].message


def test_chunks_that_can_not_be_added_up_are_left_to_langchain() -> None:
    at_odds = [{"content": "", "additional_kwargs": {"x": "a" if number % 2 else 1}} for number in range(CHUNKS)]
    with pytest.raises(TypeError, match="different type"):
        collected(chunks_of(at_odds.__getitem__))
