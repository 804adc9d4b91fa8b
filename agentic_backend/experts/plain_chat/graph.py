"""An agent as a function that returns a compiled graph; its argument is the chat model that the catalog names."""

from langchain_core.language_models import BaseChatModel
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import CompiledGraph


def build(model: BaseChatModel) -> CompiledGraph:
    async def answer(state: MessagesState) -> dict[str, object]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()
