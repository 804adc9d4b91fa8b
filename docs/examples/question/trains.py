from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

QUESTION = {
    "question": "Which train?",
    "choices": [
        {"id": "early", "label": "7:02", "description": "One change"},
        {"id": "late", "label": "9:32", "description": "Direct"},
    ],
}


async def book(state: MessagesState):
    # The node runs again from here when the answer is there, so what has effects comes after the question.
    train = interrupt(QUESTION)
    return {"messages": [AIMessage(f"I booked the {train} train.")]}


builder = StateGraph(MessagesState)
builder.add_node("book", book)
builder.add_edge(START, "book")
graph = builder.compile()
