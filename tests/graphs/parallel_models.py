"""Two models that stream at the same time in parallel nodes, and a third that answers when both have ended."""

from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel

WORDS = 20

_slow = PhraseModel(words_per_second=200)
_last = PhraseModel()


def _saying(word: str) -> Any:
    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await _slow.ainvoke(f"repeat after me: {' '.join([word] * WORDS)}")]}

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
