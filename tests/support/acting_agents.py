"""`acting` asks a person to decide on the action that the ask names, of any name and with any arguments, as JSON:
`{"action": …, "args": {…}}`; what it is to run it notes as the tools of `approving` do. `telling` asks the question
that the ask is.
"""

import json
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import CompiledGraph
from support.approval_agents import note

_IDS = ("acting", "telling")
ENTRIES: list[dict[str, Any]] = [{"id": id, "class_path": f"support.acting_agents:{id}"} for id in _IDS]


def _act(state: MessagesState) -> dict[str, Any]:
    response = interrupt({"action_request": json.loads(state["messages"][-1].text)})
    if response["type"] in ("accept", "edit"):
        note(response["args"]["action"], **response["args"]["args"])
    return {"messages": [AIMessage("Done.")]}


def _tell(state: MessagesState) -> dict[str, Any]:
    interrupt(state["messages"][-1].text)
    return {"messages": [AIMessage("Done.")]}


def _graph(node: Any) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("act", node)
    graph.add_edge(START, "act")
    return graph.compile()


acting, telling = _graph(_act), _graph(_tell)
