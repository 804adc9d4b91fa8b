"""Agents whose models are called in every way in which a call is to be recorded."""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import CompiledGraph

MODULE = "support.usage_agents"

ENTRIES = [
    {"id": "aside", "class_path": f"{MODULE}:aside"},
    {"id": "whole", "class_path": f"{MODULE}:whole"},
    {"id": "long-aside", "class_path": f"{MODULE}:long_aside"},
    {
        "id": "lead",
        "type": "leader",
        "crew": ["assistant"],
        "class_path": "agentic_backend.experts.team.team_leader:TeamLeader",
    },
    {"id": "approving", "class_path": f"{MODULE}:approving"},
]


def _graph(node: Any) -> CompiledGraph:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


def aside(model: BaseChatModel) -> CompiledGraph:
    """Asks its model twice beside its answer: once unseen, once hidden."""

    async def node(state: MessagesState) -> dict[str, Any]:
        for tag in ("nostream", "hidden"):
            await model.with_config(tags=[tag]).ainvoke(state["messages"])
        return {"messages": [await model.ainvoke(state["messages"])]}

    return _graph(node)


def whole(model: BaseChatModel) -> CompiledGraph:
    """Asks its model in a thread, for a whole answer."""

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    return _graph(node)


def long_aside(model: BaseChatModel) -> CompiledGraph:
    """Asks its model unseen, and works for long without a message."""

    async def node(state: MessagesState) -> dict[str, Any]:
        await model.with_config(tags=["nostream"]).ainvoke(state["messages"])
        await asyncio.sleep(60)
        return {"messages": [AIMessage("done")]}

    return _graph(node)


@tool
async def wait(seconds: float) -> str:
    """Wait so many seconds."""
    await asyncio.sleep(seconds)
    return "waited"


def approving(model: BaseChatModel) -> CompiledGraph:
    """Asks a person before it waits."""
    graph: CompiledGraph = create_agent(model, [wait], middleware=[HumanInTheLoopMiddleware({"wait": True})])
    return graph
