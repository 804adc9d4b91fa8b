"""Two models that stream at the same time in parallel nodes, and a third that answers when both have ended."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel

WORDS = 20

_first_words: asyncio.Barrier | None = None


@contextmanager
def first_words_together() -> Iterator[None]:
    """In one exchange, each model waits after its first word until the other has said its own."""
    global _first_words
    _first_words = asyncio.Barrier(2)
    try:
        yield
    finally:
        _first_words = None


class _ParallelModel(PhraseModel):
    words_per_second: float = 200.0

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        began = False
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk
            if chunk.text and not began and _first_words is not None:
                began = True
                await _first_words.wait()


_parallel = _ParallelModel()
_last = PhraseModel()


def _saying(word: str) -> Any:
    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await _parallel.ainvoke(f"repeat after me: {' '.join([word] * WORDS)}")]}

    return say


async def _join(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await _last.ainvoke(state["messages"])]}


_builder = StateGraph(MessagesState)
_builder.add_node("left", _saying("left"))
_builder.add_node("right", _saying("right"))
_builder.add_node("join", _join)
_builder.add_edge(START, "left")
_builder.add_edge(START, "right")
_builder.add_edge(["left", "right"], "join")
graph = _builder.compile()
