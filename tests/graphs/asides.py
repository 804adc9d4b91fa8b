"""A graph whose middle node keeps its model's answer to itself."""

from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel


async def _one(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await PhraseModel().ainvoke("repeat after me: first")]}


async def _two(state: MessagesState) -> dict[str, Any]:
    await PhraseModel().ainvoke("repeat after me: second")
    return {}


async def _three(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await PhraseModel().ainvoke("repeat after me: third")]}


graph = StateGraph(MessagesState).add_sequence([_one, _two, _three]).add_edge(START, "_one").compile()
