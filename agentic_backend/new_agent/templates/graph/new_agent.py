"""New agent: a LangGraph graph of one node. The server calls `build` for each session."""

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langgraph.graph import START, MessagesState, StateGraph

PROMPT = "You answer briefly, in the language of the question."


def build(model: BaseChatModel):
    """The graph; `model` is the chat model that the catalog entry names."""

    async def answer(state: MessagesState):
        messages = [SystemMessage(PROMPT), *state["messages"]]
        return {"messages": [await model.ainvoke(messages)]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()
