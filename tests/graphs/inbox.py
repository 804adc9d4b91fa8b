"""Graphs that ask in the form of LangChain's Agent Inbox, as its README shows, and say what they are resumed with."""

import json
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import CompiledGraph


def action(name: str, args: dict[str, Any], allowed: str | None, description: str | None = None) -> dict[str, Any]:
    """`allowed` names what the config allows; None stands for a config that is missing."""
    names = ("ignore", "respond", "edit", "accept")
    config = {} if allowed is None else {"config": {f"allow_{one}": one in allowed.split() for one in names}}
    return {"action_request": {"action": name, "args": args}, **config, "description": description}


ANN = action("send_email", {"to": "ann", "copies": 1}, "accept edit respond ignore", "# Send it?\n\nTo **Ann**.")
BOB = action("send_email", {"to": "bob"}, "accept ignore")
WHO = action("Question", {"content": "Who is Cleo?"}, "respond ignore", "Please answer.")
ANYTHING = action("delete_all", {}, None)
STRICT = action("pay", {"amount": 5}, "accept respond")
NOTICE = action("notify", {"text": "Done."}, "")


def _asking(value: Any) -> CompiledGraph:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(json.dumps(interrupt(value)))]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile()


one_in_a_list, alone, question, several = _asking([ANN]), _asking(ANN), _asking([WHO]), _asking([ANN, BOB, WHO, WHO])
anything, strict, notice = _asking([ANYTHING]), _asking([STRICT]), _asking([NOTICE])
