"""What is kept of a graph's channels, and how the next run starts from it."""

import threading
from typing import Any

import pytest
from graphs import deep_agent, own_state, supervisor, swarm
from graphs.own_state import Mood
from langgraph.graph.state import CompiledStateGraph

from agentic_backend.agents.kept_state import kept_channels, pack, unpack


@pytest.mark.parametrize(
    ("graph", "kept"),
    [
        (swarm.graph, {"active_agent"}),
        (supervisor.last_message, set()),
        (deep_agent.graph, {"files", "todos", "structured_response"}),
        # Neither what it hides from its output, nor what is not meant to last.
        (own_state.graph, {"log", "asked", "mood"}),
    ],
)
def test_what_a_graph_gives_back_beside_its_messages_is_kept(
    graph: CompiledStateGraph[Any, Any, Any, Any], kept: set[str]
) -> None:
    assert kept_channels(graph) == kept


def test_what_is_packed_comes_back() -> None:
    channels = {"nothing": None, "files": {"/a": {"content": ["é", "\x00"]}}, "bytes": b"\xff", "mood": Mood("good", 1)}
    assert unpack(pack(channels)) == channels


def test_a_value_that_cant_be_serialized_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert unpack(pack({"lock": threading.Lock(), "count": 1})) == {"count": 1}
    assert [record.channel for record in caplog.records] == ["lock"]
