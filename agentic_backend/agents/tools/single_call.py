"""A call of one tool beside any graph of an agent, behind the guards that tools have within."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agentic_backend.agents.runtime_context import RuntimeContext, make_current
from agentic_backend.agents.tools.tool_guard import guard_tools


async def call_alone(
    tool: BaseTool, arguments: Mapping[str, Any], call_id: str, context: RuntimeContext
) -> ToolMessage:
    """The result, as a model would get it: a failed one where the user of `context` may not use the tool."""
    building = StateGraph(MessagesState, RuntimeContext).add_node("tools", ToolNode([tool])).add_edge(START, "tools")
    graph = building.compile()
    guard_tools(graph)
    make_current(context)
    call = {"type": "tool_call", "name": tool.name, "args": dict(arguments), "id": call_id}
    state = await graph.ainvoke({"messages": [AIMessage("", tool_calls=[call])]}, context=context)
    result = state["messages"][-1]
    assert isinstance(result, ToolMessage), "a ToolNode answers a call with its result"
    return result
