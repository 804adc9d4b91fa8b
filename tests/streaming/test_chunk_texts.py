"""Half a character at the end of a chunk is joined with the other half, wherever it stands and however a graph takes
the stream: what a node gets, what its graph keeps and what is shown are the same.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.graph import MessagesState
from support.drafts import Transcript
from support.recorded_agents import one_node
from support.transcribed import ASKED, transcribe

from agentic_backend.protocol.parts import ToolCallPart
from agentic_backend.streaming.model.chunk_texts import ChunkTexts
from agentic_backend.streaming.transcode.drafts import TextDraft
from agentic_backend.text.normal_form import clean

HIGH, LOW, FACE, LOST = "\ud83d", "\ude00", "\U0001f600", "\ufffd"


class ChunkModel(BaseChatModel):
    """Says the chunks of `made`, which makes them anew for each call."""

    made: Callable[[], Sequence[AIMessageChunk]]
    streams: bool = True

    @property
    def _llm_type(self) -> str:
        return "chunks"

    def _should_stream(self, **kwargs: Any) -> bool:
        return self.streams and super()._should_stream(**kwargs)

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in self.made():
            yield ChatGenerationChunk(message=chunk)

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream():
            yield chunk

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return generate_from_stream(self._stream())


async def _awaited(model: ChunkModel) -> Any:
    return await model.ainvoke("?")


async def _added_up(model: ChunkModel) -> Any:
    chunks = [chunk async for chunk in model.astream("?")]
    return chunks[0] + chunks[1:]


def _in_thread(model: ChunkModel) -> Any:
    return model.invoke("?")


def _added_up_in_thread(model: ChunkModel) -> Any:
    chunks = list(model.stream("?"))
    return chunks[0] + chunks[1:]


WAYS = [_awaited, _added_up, _in_thread, _added_up_in_thread]


async def answered(way: Any, chunks: Callable[[], Sequence[AIMessageChunk]], *, streams: bool = True) -> Any:
    """The message that the graph keeps, and the transcript of its stream."""
    kept: list[AIMessage] = []
    model = ChunkModel(made=chunks, streams=streams)

    async def answer(state: MessagesState) -> dict[str, Any]:
        kept.append(await way(model))
        return {"messages": kept}

    def answer_in_thread(state: MessagesState) -> dict[str, Any]:
        kept.append(way(model))
        return {"messages": kept}

    node = answer_in_thread if "thread" in way.__name__ else answer
    transcript = Transcript(history=[ASKED])
    await transcribe(one_node(node), transcript)
    return kept[0], transcript.finish()


def texts(*pieces: str) -> list[AIMessageChunk]:
    return [AIMessageChunk(piece) for piece in pieces]


def blocks(*pieces: tuple[int, str, str]) -> list[AIMessageChunk]:
    """Chunks of blocks, of their (index, type, text)."""
    return [AIMessageChunk([{"type": kind, kind: text, "index": index}]) for index, kind, text in pieces]


TEXTS = {
    "joined": (lambda: texts("a" + HIGH, LOW, "b"), f"a{FACE}b"),
    "with an empty chunk between": (lambda: texts(HIGH, "", LOW + HIGH, LOW), FACE + FACE),
    "never": (lambda: texts("a" + HIGH), "a" + LOST),
    "another half": (lambda: texts(HIGH, HIGH, LOW, LOW), LOST + FACE + LOST),
    "not halves": (lambda: texts("\x00caf\udce9", "s"), f"{LOST}caf{LOST}s"),
    "in blocks": (lambda: blocks((0, "text", "a" + HIGH), (0, "text", LOW)), "a" + FACE),
    "in a block, never": (lambda: blocks((0, "text", "a" + HIGH)), "a" + LOST),
    "before the next block": (
        lambda: [
            *blocks((0, "text", "a" + HIGH), (1, "text", LOW + HIGH)),
            AIMessageChunk([{"type": "text", "text": one, "index": index} for index, one in ((1, HIGH), (2, LOW))]),
        ],
        "a" + LOST * 5,
    ),
    "in plain strings": (lambda: [AIMessageChunk([one]) for one in ("a" + HIGH, LOW)], "a" + FACE),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("chunks", "text"), TEXTS.values(), ids=TEXTS)
async def test_a_text_is_whole_in_the_state_and_in_the_stream(way: Any, chunks: Any, text: str) -> None:
    kept, transcript = await answered(way, chunks)
    assert kept.text == text
    if isinstance(kept.content, str) or isinstance(kept.content[0], dict):
        assert transcript.told == [("final", text)]
    for draft in transcript.drafts:
        assert not isinstance(draft, TextDraft) or draft.text.encode()


async def test_a_message_that_is_not_streamed_is_clean_too() -> None:
    kept, transcript = await answered(_awaited, lambda: texts(f"a{HIGH}{LOW}{HIGH}"), streams=False)
    assert kept.text == f"a{FACE}{LOST}"
    assert transcript.told == [("final", kept.text)]


@given(st.lists(st.text(st.sampled_from(f"a\n\x00{HIGH}{LOW}{FACE}"), max_size=4), min_size=1))
def test_a_text_is_cleaned_in_pieces_as_it_is_as_a_whole(pieces: list[str]) -> None:
    chunks = [*texts(*pieces), AIMessageChunk("", chunk_position="last")]
    cleaner = ChunkTexts()
    for chunk in chunks:
        cleaner.put_into(chunk)
    assert (chunks[0] + chunks[1:]).content == clean("".join(pieces))


@pytest.mark.parametrize(
    "chunks",
    [
        lambda: [AIMessageChunk("", additional_kwargs={"reasoning_content": one}) for one in (HIGH, LOW, HIGH)],
        lambda: blocks(*[(0, "reasoning", one) for one in (HIGH, LOW, HIGH)]),
        lambda: blocks((0, "reasoning", HIGH), (1, "text", HIGH), (0, "reasoning", LOW + HIGH), (1, "text", LOW)),
    ],
)
async def test_a_thought_is_whole(chunks: Any) -> None:
    _, transcript = await answered(_awaited, chunks)
    assert ("thought", FACE + LOST) in transcript.told


@pytest.mark.parametrize("way", WAYS)
async def test_the_arguments_of_a_call_are_whole(way: Any) -> None:
    pieces = ['{"a' + HIGH, LOW + '": "' + HIGH, LOW + r'\ud83d", "b": "\ud83d', r'\ude00"}']

    def chunks() -> Iterator[AIMessageChunk]:
        yield AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="look", id="c1", args="", index=0)])
        for piece in pieces:
            yield AIMessageChunk("", tool_call_chunks=[tool_call_chunk(args=piece, index=0)])

    kept, transcript = await answered(way, lambda: list(chunks()))
    args = {f"a{FACE}": FACE + LOST, "b": FACE}
    assert [one["args"] for one in kept.tool_calls] == [args]
    [part] = [one for message in transcript.messages for one in message.parts if isinstance(one, ToolCallPart)]
    assert part.args == args


@pytest.mark.parametrize("index", [0, None])
async def test_a_name_and_an_id_are_whole_and_so_is_a_call_without_a_place(index: int | None) -> None:
    called = tool_call_chunk(name="look" + HIGH, id="c" + HIGH, args='{"a": 1}' if index == 0 else HIGH, index=index)
    kept, _ = await answered(_awaited, lambda: [AIMessageChunk("", tool_call_chunks=[called])])
    assert [(one["name"], one["id"]) for one in kept.tool_calls] == [(f"look{LOST}", f"c{LOST}")]


async def test_a_call_that_is_cut_within_a_character_keeps_what_came() -> None:
    called = tool_call_chunk(name="look", id="c1", args='{"a": "' + HIGH, index=0)
    kept, _ = await answered(_awaited, lambda: [AIMessageChunk("", tool_call_chunks=[called])])
    assert [one["args"] for one in kept.tool_calls] == [{"_invalid": '{"a": "' + LOST}]
