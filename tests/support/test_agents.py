"""Test agents, built on public APIs only, as an author would write them."""

import asyncio
from typing import Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph

MODULE = "support.test_agents"


def _graph(node: Any, state: Any = MessagesState) -> CompiledGraph:
    graph = StateGraph(state)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile()


def _echo(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"echo: {state['messages'][-1].text}")]}


def _raise(state: MessagesState) -> dict[str, Any]:
    raise ValueError("the secret of the graph")


def _question(state: MessagesState) -> dict[str, Any]:
    answer = interrupt({"question": "Which one?", "choices": ["left", "right"]})
    return {"messages": [AIMessage(f"You chose {answer}.")]}


class _Other(TypedDict):
    text: str


echo_graph = _graph(_echo)
raising_graph = _graph(_raise)
asking_graph = _graph(_question)
graph_without_messages = _graph(lambda state: {"text": "x"}, _Other)


class FailsInInit(AgentFlow):
    async def async_init(self) -> None:
        raise RuntimeError("the secret of the author")

    def get_compiled_graph(self) -> CompiledGraph:
        return echo_graph


class HangsInInit(AgentFlow):
    async def async_init(self) -> None:
        await asyncio.Event().wait()

    def get_compiled_graph(self) -> CompiledGraph:
        return echo_graph


ENTRIES: list[dict[str, Any]] = [
    {"id": "echo", "class_path": f"{MODULE}:echo_graph"},
    {"id": "raising", "class_path": f"{MODULE}:raising_graph"},
    {"id": "asking", "class_path": f"{MODULE}:asking_graph"},
    {"id": "no-messages", "class_path": f"{MODULE}:graph_without_messages"},
    {"id": "fails-in-init", "class_path": f"{MODULE}:FailsInInit"},
    {"id": "no-such-class", "class_path": f"{MODULE}:NoSuchClass"},
    {"id": "disabled", "class_path": f"{MODULE}:echo_graph", "enabled": False},
]
