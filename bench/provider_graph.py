"""The graphs that are measured with a provider's package: one call of the model, or one that calls tools first."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
async def look_up(words: str) -> str:
    """Look words up."""
    return "found"


def build(model: BaseChatModel) -> CompiledStateGraph[Any, Any, Any, Any]:
    return _answering(model).compile()


def with_tools(model: BaseChatModel) -> CompiledStateGraph[Any, Any, Any, Any]:
    graph = _answering(model.bind_tools([look_up]))
    graph.add_node("tools", ToolNode([look_up]))
    graph.add_conditional_edges("answer", tools_condition)
    graph.add_edge("tools", "answer")
    return graph.compile()


def _answering(model: Any) -> StateGraph[Any, Any, Any, Any]:
    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph
