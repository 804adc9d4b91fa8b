"""An agent that keeps more state than its messages."""

from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import CompiledGraph


class Notes(MessagesState):
    count: Annotated[int, lambda count, more: count + more]
    note: str | None


def noting_graph(name: str = "") -> CompiledGraph:
    """Counts its exchanges, and stores the text of messages that start with "note "."""

    def answer(state: Notes) -> dict[str, Any]:
        text = state["messages"][-1].text
        if text == "fail":
            raise RuntimeError
        note = text.removeprefix("note ") if text.startswith("note ") else state.get("note")
        heard = [message.text for message in state["messages"] if isinstance(message, HumanMessage)]
        told = f"{name}{state.get('count', 0) + 1} {note} {'|'.join(heard)}"
        return {"messages": [AIMessage(told)], "count": 1, "note": None if text == "forget" else note}

    graph = StateGraph(Notes)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()
