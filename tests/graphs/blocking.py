"""A graph that knows nothing of asyncio: nodes, model and tools all block their thread."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from support.phrase_model import PhraseModel

BLOCKED_S = 0.3
_LONGEST_S = 60

speaking: set[object] = set()
"""The streams of the model that are open."""


class Hold:
    """A place where the graph blocks its thread for as long as a test holds it; until then nothing is held."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        """Set while a thread is held there."""
        self._released = threading.Event()
        self._released.set()

    def pass_by(self) -> None:
        if not self._released.is_set():
            self.reached.set()
            self._released.wait(_LONGEST_S)
            self.reached.clear()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._released.clear()
        try:
            yield
        finally:
            self._released.set()


in_node, in_tool, after_first_word = Hold(), Hold(), Hold()


class BlockingModel(PhraseModel):
    words_per_second: float = 200.0

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        stream = object()
        speaking.add(stream)
        try:
            for chunk in super()._stream(*args, **kwargs):
                yield chunk
                if chunk.text:
                    after_first_word.pass_by()
        finally:
            speaking.remove(stream)


@tool
def sleep(word: str) -> str:
    """Sleeps."""
    time.sleep(BLOCKED_S)
    in_tool.pass_by()
    return f"slept {word}"


_model = BlockingModel().bind_tools([sleep])


def _block(state: MessagesState) -> dict[str, Any]:
    time.sleep(BLOCKED_S)
    in_node.pass_by()
    return {}


def _speak(state: MessagesState) -> dict[str, Any]:
    return {"messages": [_model.invoke(state["messages"])]}


_builder = StateGraph(MessagesState)
_builder.add_node("block", _block)
_builder.add_node("speak", _speak)
_builder.add_node("tools", ToolNode([sleep]))
_builder.add_edge(START, "block")
_builder.add_edge("block", "speak")
_builder.add_conditional_edges("speak", tools_condition)
_builder.add_edge("tools", "speak")
graph = _builder.compile()
