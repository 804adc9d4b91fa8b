"""Graphs that are compiled with breakpoints; each says which of its nodes have run."""

import operator
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send, interrupt
from support.approval_agents import CallingModel

from agentic_backend.agents.agent_flow import CompiledGraph


class State(MessagesState):
    ran: Annotated[list[str], operator.add]


def _chain(*names: str, **asks: str) -> StateGraph[State]:
    """The nodes one after the other, then one that tells; `asks` are the questions of nodes."""
    graph = StateGraph(State)
    for name in names:

        def run(state: State, name: str = name) -> dict[str, Any]:
            return {"ran": [f"{name}: {interrupt(asks[name])}" if name in asks else name]}

        graph.add_node(name, run)
    graph.add_node("tell", lambda state: {"messages": [AIMessage(" ".join(state["ran"]))]})
    graph.add_edge(START, names[0])
    for one, following in zip(names, [*names[1:], "tell"], strict=True):
        graph.add_edge(one, following)
    return graph


before = _chain("a", "b", "c").compile(interrupt_before=["b"])
after = _chain("a", "b", "c").compile(interrupt_after=["b"])
both = _chain("a", "b", "c").compile(interrupt_before=["b", "c"], interrupt_after=["b", "tell"])
everywhere = _chain("a", "b").compile(interrupt_before="*")
and_a_question = _chain("a", "b", b="Really?").compile(interrupt_before=["b"])


def _nested() -> CompiledGraph:
    """Breakpoints in a subgraph, and before it in its parent."""
    inner = _chain("x", "y").compile(interrupt_before=["y"], interrupt_after=["x", "y"])
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_node("end", lambda state: {"messages": [AIMessage("done")]})
    graph.add_edge(START, "sub")
    graph.add_edge("sub", "end")
    return graph.compile(interrupt_before=["sub"])


def _beside_a_question() -> CompiledGraph:
    """A subgraph stands at a breakpoint while another node asks."""
    inner = _chain("x", "y").compile(interrupt_before=["y"])
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_node("ask", lambda state: {"ran": [f"asked: {interrupt('Why?')}"]})
    graph.add_node("end", lambda state: {"messages": [AIMessage(next(one for one in state["ran"] if ":" in one))]})
    graph.add_edge(START, "sub")
    graph.add_edge(START, "ask")
    graph.add_edge(["sub", "ask"], "end")
    return graph.compile()


def _within_a_node() -> CompiledGraph:
    """A graph with a breakpoint that only the code of a node knows, after a run of many by `Send`."""
    graphs = {"inner": _chain("x", "y").compile(interrupt_before=["y"])}

    async def run(state: State) -> dict[str, Any]:
        told = await graphs["inner"].ainvoke({"messages": state["messages"], "ran": []})
        return {"messages": [AIMessage(told["messages"][-1].text)]}

    graph = StateGraph(State)
    graph.add_node("many", lambda state: {"ran": ["m"]})
    graph.add_node("run", run)
    graph.add_conditional_edges(START, lambda state: [Send("many", state)] * 2, ["many"])
    graph.add_edge("many", "run")
    return graph.compile(interrupt_after=["many"])


nested, beside_a_question, within_a_node = _nested(), _beside_a_question(), _within_a_node()


@tool
def send(to: str) -> str:
    """Send an email."""
    return f"sent to {to}"


tools = create_agent(CallingModel(), tools=[send], interrupt_before=["tools"])
