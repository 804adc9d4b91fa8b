"""Agents whose runs authors look into: one node, a model with tools, subgraphs, parallel nodes, a crew, a question."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.testing import ScriptedModel, Turn, call

MODULE = "support.traced_agents"


@tool
def weigh(thing: str) -> str:
    """Weigh a thing."""
    return f"The {thing} weighs 7 kg."


def _weighs(messages: list[BaseMessage]) -> Turn:
    if isinstance(messages[-1], ToolMessage):
        return Turn("It weighs 7 kg.", tokens=(20, 5))
    return Turn(calls=[call("weigh", thing="cat")], tokens=(10, 3))


def with_tools() -> CompiledGraph:
    return create_agent(ScriptedModel(*[_weighs] * 4), [weigh], system_prompt="You weigh things.")


def _weighs_two(messages: list[BaseMessage]) -> Turn:
    if isinstance(messages[-1], ToolMessage):
        return Turn("They weigh 7 kg.")
    return Turn(calls=[call("weigh", thing="cat"), call("weigh", thing="dog")])


def with_parallel_tools() -> CompiledGraph:
    return create_agent(ScriptedModel(*[_weighs_two] * 2), [weigh])


class _State(TypedDict, total=False):
    messages: Annotated[list[BaseMessage], add_messages]
    facts: Annotated[list[str], lambda old, new: [*(old or []), *(new or [])]]
    huge: list[str]


def _inner() -> CompiledGraph:
    graph = StateGraph(_State)
    graph.add_node("look", lambda state: {"facts": ["seen"]})
    graph.add_node("note", lambda state: {"facts": ["noted"]})
    graph.add_edge(START, "look")
    graph.add_edge("look", "note")
    return graph.compile()


def _nested() -> CompiledGraph:
    graph = StateGraph(_State)
    graph.add_node("plan", lambda state: {"facts": ["planned"]})
    graph.add_node("research", _inner())
    graph.add_node("left", lambda state: {"facts": ["left"]})
    graph.add_node("right", lambda state: {"facts": ["right"]})
    graph.add_node("answer", lambda state: {"messages": [AIMessage(f"Facts: {' '.join(sorted(state['facts']))}")]})
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "research")
    graph.add_edge("research", "left")
    graph.add_edge("research", "right")
    graph.add_edge(["left", "right"], "answer")
    return graph.compile()


nested = _nested()


def _huge() -> CompiledGraph:
    graph = StateGraph(_State)
    graph.add_node("grow", lambda state: {"huge": ["x" * 50_000] * 200})
    graph.add_node("answer", lambda state: {"messages": [AIMessage("grown")]})
    graph.add_edge(START, "grow")
    graph.add_edge("grow", "answer")
    return graph.compile()


huge = _huge()


def _failing() -> CompiledGraph:
    def fail(state: MessagesState) -> dict[str, Any]:
        raise ValueError("no such thing")

    graph = StateGraph(MessagesState)
    graph.add_node("fail", fail)
    graph.add_edge(START, "fail")
    return graph.compile()


failing = _failing()


def _asking() -> CompiledGraph:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"You chose {interrupt({'question': 'Which?', 'choices': ['a', 'b']})}.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("prepare", lambda state: {})
    graph.add_node("ask", ask)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "ask")
    graph.add_edge("ask", END)
    return graph.compile()


asking = _asking()


def _branching() -> CompiledGraph:
    names = [f"n{number}" for number in range(60)]
    graph = StateGraph(MessagesState)
    graph.add_edge(START, names[0])
    for name in names:
        graph.add_node(name, lambda state: {})
        graph.add_conditional_edges(name, lambda state: END, [*names, END])
    return graph.compile()


branching = _branching()


ENTRIES: list[dict[str, Any]] = [
    {"id": name, "class_path": f"{MODULE}:{graph}"}
    for name, graph in (
        ("tools", "with_tools"),
        ("nested", "nested"),
        ("huge", "huge"),
        ("failing", "failing"),
        ("which", "asking"),
        ("parallel", "with_parallel_tools"),
        ("branching", "branching"),
    )
]
