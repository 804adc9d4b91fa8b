"""A graph that writes custom stream events: from a node and from a tool, as a mapping and as a bare value."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel


@tool
async def load(rows: int) -> str:
    """Loads rows."""
    write = get_stream_writer()
    for row in range(rows):
        write({"row": row, "of": rows})
    return f"{rows} rows"


def _begin(state: MessagesState) -> dict[str, Any]:
    get_stream_writer()("beginning")
    return {}


_builder = StateGraph(MessagesState)
_builder.add_node("begin", _begin)
_builder.add_node("agent", create_agent(PhraseModel(), [load], name="loader"))
_builder.add_edge(START, "begin")
_builder.add_edge("begin", "agent")
graph = _builder.compile()
