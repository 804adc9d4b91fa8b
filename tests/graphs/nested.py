"""Subgraphs two deep that share `messages` with the root, and one that keeps its messages to itself."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel


@tool
def inner_tool(word: str) -> str:
    """Gives the word back."""
    return f"inner {word}"


_inner = create_agent(PhraseModel(), [inner_tool], name="inner")

_middle = StateGraph(MessagesState)
_middle.add_node("inner", _inner)
_middle.add_edge(START, "inner")

_outer = StateGraph(MessagesState)
_outer.add_node("middle", _middle.compile())
_outer.add_edge(START, "middle")

shared = _outer.compile()
"""Two subgraphs deep, the messages of the innermost are the root's own."""


async def _consult(state: MessagesState) -> dict[str, Any]:
    consulted = await _inner.ainvoke({"messages": [HumanMessage('call inner_tool(word="secret")')]})
    return {"messages": [AIMessage(f"Consulted, in {len(consulted['messages'])} messages.")]}


async def _answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await PhraseModel().ainvoke(state["messages"])]}


async def _copy_answer(state: MessagesState) -> dict[str, Any]:
    answered = await _inner.ainvoke({"messages": state["messages"]})
    return {"messages": [AIMessage(answered["messages"][-1].text)]}


async def _research(state: MessagesState) -> dict[str, Any]:
    researched = await _inner.ainvoke({"messages": [HumanMessage('call inner_tool(word="fact")')]})
    return {"messages": [AIMessage(researched["messages"][-1].text)]}


_private = StateGraph(MessagesState)
_private.add_node("consult", _consult)
_private.add_node("answer", _answer)
_private.add_edge(START, "consult")
_private.add_edge("consult", "answer")
private = _private.compile()
"""What the consulted agent says and does stays within its node."""

_copying = StateGraph(MessagesState)
_copying.add_node("copy", _copy_answer)
_copying.add_edge(START, "copy")
copying = _copying.compile()
"""The answer of the agent within is handed on as a message of the node's own."""

_pipeline = StateGraph(MessagesState)
_pipeline.add_node("research", _research)
_pipeline.add_node("answer", _answer)
_pipeline.add_edge(START, "research")
_pipeline.add_edge("research", "answer")
pipeline = _pipeline.compile()
"""The same, but another node has the last word."""

_short_form = StateGraph(MessagesState)
_short_form.add_node("greet", lambda state: {"messages": [{"role": "assistant", "content": "Let me see."}]})
_short_form.add_node("agent", _inner)
_short_form.add_edge(START, "greet")
_short_form.add_edge("greet", "agent")
short_form = _short_form.compile()
"""A message in LangChain's short form, which gets its id only when the agent after it hands it over again."""
