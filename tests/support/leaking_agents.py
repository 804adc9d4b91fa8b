"""Agents that tell of secrets: they quote the environment, where the secrets of the process are."""

import os
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import CompiledGraph


def _graph(node: Any) -> CompiledGraph:
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile()


def asks_its_model(model: BaseChatModel) -> CompiledGraph:
    """Calls its model, whatever that raises."""

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return _graph(node)


def quotes_the_environment() -> CompiledGraph:
    """Fails with all variables in the text of its exception."""

    async def node(state: MessagesState) -> dict[str, Any]:
        raise ConnectionError(f"refused, with {dict(os.environ)}")

    return _graph(node)
