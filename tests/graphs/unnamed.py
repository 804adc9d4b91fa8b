"""Graphs whose first exchange is no streamed answer: each time the session has to get its name all the same."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState
from langgraph.types import interrupt
from support.recorded_agents import one_node

from agentic_backend.agents.agent_flow import CompiledGraph


def says_nothing_on_the_way(state: MessagesState) -> dict[str, Any]:
    """Answers without a model, so that nothing streams."""
    return {"messages": [AIMessage("done")]}


def fails(state: MessagesState) -> dict[str, Any]:
    raise ValueError("broken")


def asks(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"So it is {interrupt('Which one?')}.")]}


silent: CompiledGraph = one_node(says_nothing_on_the_way)
failing: CompiledGraph = one_node(fails)
asking: CompiledGraph = one_node(asks)

AGENTS = [{"id": name, "class_path": f"graphs.unnamed:{name}"} for name in ("silent", "failing", "asking")] + [
    {"id": "ends-on-tool", "class_path": "graphs.ends_on_tool:graph"}
]
