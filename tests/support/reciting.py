"""A graph that says what it was given."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import CompiledGraph


def reciting_graph(given: list[list[str]]) -> CompiledGraph:
    """Answers with all that it was given, and adds that to `given`."""

    def answer(state: MessagesState) -> dict[str, Any]:
        given.append([message.text for message in state["messages"]])
        return {"messages": [AIMessage("I was told: " + " | ".join(given[-1]))]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()
