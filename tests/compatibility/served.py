"""The server that transcripts are recorded from and replayed against, and an agent that shows every kind of part."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from support import approval_agents, test_agents
from support.running_server import RunningServer, running_server

from agentic_backend.agents.parts import CodePart, GeoPart, ImageUrlPart, LinkPart, emit_parts


def _show(state: MessagesState) -> dict[str, Any]:
    get_stream_writer()({"step": 1})
    emit_parts(
        CodePart(language="sql", code="SELECT 1"),
        ImageUrlPart(url="https://example.org/a.png", alt="a"),
        LinkPart(kind="related", title="A", href="https://example.org/a"),
        GeoPart(geojson={"type": "FeatureCollection", "features": []}, fit_bounds=True),
    )
    return {"messages": [AIMessage("Here they are.")]}


_builder = StateGraph(MessagesState)
_builder.add_node("show", _show)
_builder.add_edge(START, "show")
showing = _builder.compile()

AGENTS = [
    *test_agents.ENTRIES,
    *approval_agents.ENTRIES,
    {"id": "showing", "class_path": "compatibility.served:showing"},
]


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[RunningServer]:
    """A server with its data in `directory`."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(approval_agents.NOTES_VARIABLE, str(directory / "notes"))
        async with running_server(directory, agents=AGENTS) as server:
            yield server
