"""Graphs that emit parts and custom events: from nodes in the event loop and in threads, from tools and subgraphs."""

import asyncio
from typing import Any

from graphs.texts import ChunkModel
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.parts import CodePart, GeoPart, LinkPart, emit_parts

LINK = {"type": "link", "kind": "related", "title": "A", "href": "https://example.org/a"}
CODE = {"type": "code", "language": "sql", "code": "SELECT 1"}
MAP = {"type": "geo", "geojson": {"type": "FeatureCollection", "features": []}, "fit_bounds": True}

_model = ChunkModel(chunks=[AIMessageChunk("Here "), AIMessageChunk("it is.")])


def _steps(*nodes: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_sequence([(f"step{number}", node) for number, node in enumerate(nodes)])
    builder.add_edge(START, "step0")
    return builder.compile()


def _emit_link(state: MessagesState) -> dict[str, Any]:
    """Synchronous, so in a thread."""
    emit_parts(LinkPart(kind="related", title="A", href="https://example.org/a"))
    return {}


async def _answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await _model.ainvoke(state["messages"])]}


async def _answer_with_map(state: MessagesState) -> dict[str, Any]:
    message = await _model.ainvoke(state["messages"])
    emit_parts(GeoPart(geojson={"type": "FeatureCollection", "features": []}, fit_bounds=True))
    return {"messages": [message]}


before = _steps(_emit_link, _answer)
beside = _steps(_answer_with_map)
after = _steps(_answer, _emit_link)
only = _steps(_emit_link)


@tool
def query() -> str:
    """Queries."""
    emit_parts(CodePart(language="sql", code="SELECT 1"), LINK)
    return "1 row"


class _Querying(ChunkModel):
    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = tool_call_chunk(name="query", args="{}", id="q1", index=0)
        is_done = messages[-1].type == "tool"
        self.chunks = [AIMessageChunk("One.")] if is_done else [AIMessageChunk("", tool_call_chunks=[call])]
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


in_tool = create_agent(_Querying(chunks=[]), [query])
in_subgraph = _steps(_steps(in_tool))


def _invalid(state: MessagesState) -> dict[str, Any]:
    try:
        emit_parts({"type": "link", "kind": "nonsense"})
    except ValueError as error:
        return {"messages": [AIMessage(str(error))]}
    return {}


invalid = _steps(_invalid)


def _too_many(state: MessagesState) -> dict[str, Any]:
    for _ in range(600):
        emit_parts(CODE)
    return {"messages": [AIMessage("Done.")]}


too_many = _steps(_too_many)

STEPS = 5_000


async def _flood(state: MessagesState) -> dict[str, Any]:
    write = get_stream_writer()
    for step in range(STEPS):
        write({"step": step})
    return {"messages": [AIMessage("Done.")]}


async def _flood_large(state: MessagesState) -> dict[str, Any]:
    write = get_stream_writer()
    for step in range(100):
        write({"step": step, "rest": "x" * 30_000})
    # An event at once, so that the client has read all before the final.
    await asyncio.sleep(0)
    return {"messages": [AIMessage("Done.")]}


def _odd_payloads(state: MessagesState) -> dict[str, Any]:
    write = get_stream_writer()
    write({"table": "x" * 100_000})
    write({"model": _model})
    return {"messages": [AIMessage("Done.")]}


flooding, flooding_large, odd_payloads = _steps(_flood), _steps(_flood_large), _steps(_odd_payloads)

AGENTS = [
    {"id": name.replace("_", "-"), "class_path": f"graphs.emitting:{name}"}
    for name in [
        *("before", "beside", "after", "only", "in_tool", "in_subgraph", "invalid", "too_many"),
        *("flooding", "flooding_large", "odd_payloads"),
    ]
]
