import operator
from typing import Annotated

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph


class State(MessagesState):
    findings: Annotated[list[str], operator.add]


async def check_length(state: State):
    words = len(state["messages"][-1].text.split())
    return {"findings": [f"{words} words"]}


async def check_shouting(state: State):
    return {"findings": ["it shouts" if state["messages"][-1].text.isupper() else "it is calm"]}


async def sum_up(state: State):
    # Findings of earlier exchanges are kept; the last two are of this one.
    return {"messages": [AIMessage(f"Your text: {', '.join(sorted(state['findings'][-2:]))}.")]}


builder = StateGraph(State)
builder.add_node("check_length", check_length)
builder.add_node("check_shouting", check_shouting)
builder.add_node("sum_up", sum_up)
builder.add_edge(START, "check_length")
builder.add_edge(START, "check_shouting")
builder.add_edge(["check_length", "check_shouting"], "sum_up")
builder.add_edge("sum_up", END)
graph = builder.compile()
