"""Agents for clients of OpenAI's forms."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState

from support.recorded_agents import one_node


def _said(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(state["messages"][-1].text.split("\n")[0])]}


saying = one_node(_said)
"""Answers with the first line of the message."""
