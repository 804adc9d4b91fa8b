"""Graphs of which a deploy changes something while an exchange waits: `old` before it, the others after it."""

import operator
from collections.abc import Callable
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send, interrupt
from support.approval_agents import CallingModel

from agentic_backend.agents.agent_flow import CompiledGraph


class State(MessagesState):
    heard: Annotated[list[str], operator.add]


def _ask(state: State) -> dict[str, Any]:
    return {"heard": [str(interrupt("Left or right?"))]}


def _tell(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage(f"You said {' '.join(state['heard'])}.")]}


def _graph(asking: str, telling: str = "tell", ask: Callable[[State], Any] | CompiledGraph = _ask) -> CompiledGraph:
    graph = StateGraph(State)
    graph.add_node("greet", lambda state: {"messages": [AIMessage("Hello.")]})
    graph.add_node(asking, ask)
    graph.add_node(telling, _tell)
    graph.add_edge(START, "greet")
    graph.add_edge("greet", asking)
    graph.add_edge(asking, telling)
    return graph.compile()


def _inner(asking: str) -> CompiledGraph:
    graph = StateGraph(State)
    graph.add_node(asking, _ask)
    graph.add_edge(START, asking)
    return graph.compile()


def _sending(name: str) -> CompiledGraph:
    graph = StateGraph(State)
    graph.add_node(name, _ask)
    graph.add_node("tell", _tell)
    graph.add_conditional_edges(START, lambda state: [Send(name, state)], [name])
    graph.add_edge(name, "tell")
    return graph.compile()


@tool
def send(to: str) -> str:
    """Send an email."""
    return f"sent to {to}"


asks_first = [HumanInTheLoopMiddleware[Any, Any, Any]({"send": True}, interrupt_mode="per_call")]

old = _graph("ask")
same = _graph("ask", "report")
renamed = _graph("inquire")
subgraph, subgraph_renamed = _graph("sub", ask=_inner("ask")), _graph("sub", ask=_inner("inquire"))
sending, sending_renamed = _sending("ask"), _sending("inquire")
agent = create_agent(CallingModel(), tools=[send], middleware=asks_first)
replaced = _inner("another")


@tool("send")
def send_money(to: str) -> str:
    """Send money."""
    return f"paid {to}"


another_send = create_agent(CallingModel(), tools=[send_money], middleware=asks_first)
