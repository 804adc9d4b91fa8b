"""What is kept of a graph's channels, and how the next run starts from it."""

import dataclasses
import operator
import threading
from typing import Annotated, Any

import pytest
from graphs import deep_agent, memory_graphs, own_state, state_graphs, supervisor, swarm
from graphs.own_state import Mood
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

from agentic_backend.agents.state.channel_forms import forms_of
from agentic_backend.agents.state.kept_state import (
    MESSAGES_BYTES,
    Kept,
    adds_messages,
    kept_channels,
    pack_channels,
    pack_messages,
    private_channels,
    restore,
)
from agentic_backend.agents.state.state_serializer import StateSerializer, serializer
from agentic_backend.agents.state.state_types import types_of


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


def test_the_private_state_of_middleware_is_told_from_what_else_a_graph_hides() -> None:
    assert private_channels(state_graphs.limited) == {"thread_model_call_count"}
    assert private_channels(own_state.graph) == private_channels(swarm.graph) == set()


def test_what_is_packed_comes_back() -> None:
    channels = {"nothing": None, "files": {"/a": {"content": ["é", "\x00"]}}, "bytes": b"\xff", "mood": Mood("good", 1)}
    messages = [
        HumanMessage("hello", id="e:0"),
        ToolMessage("", tool_call_id="c", artifact={"coin": [1, b"x"]}, id="t"),
    ]
    serde = StateSerializer([Mood])
    kept = Kept(
        pack_channels(channels, serde),
        {"files": "dict"},
        pack_messages(messages, "agent")[1],
        pack_channels({"a": 1}),
        7,
    )
    again = Kept.unpack(kept.pack())
    assert again == kept
    assert {name: serde.loads_typed(packed) for name, packed in again.channels.items()} == channels
    assert again.messages is not None and serializer.loads_typed(again.messages) == messages


def test_what_an_older_server_has_packed_is_read() -> None:
    older = serializer.dumps_typed({"asked": serializer.dumps_typed(41)})[1]
    kept, messages = restore(Kept.unpack(older), own_state.graph, "agent")
    assert kept.channels == pack_channels({"asked": 41}) and (kept.messages, kept.rank, messages) == (None, 0, [])


def test_a_value_that_cant_be_serialized_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert pack_channels({"lock": threading.Lock(), "count": 1}) == pack_channels({"count": 1})
    assert [record.channel for record in caplog.records] == ["lock"]


def test_a_message_is_kept_without_what_cant_be_serialized(caplog: pytest.LogCaptureFixture) -> None:
    messages = [HumanMessage("hello", id="e:0"), ToolMessage("found", tool_call_id="c", artifact=threading.Lock())]
    kept, packed = pack_messages(messages, "agent")
    assert packed is not None and serializer.loads_typed(packed) == kept
    assert [one.text for one in kept] == ["hello", "found"] and kept[1].artifact is None
    assert [record.field for record in caplog.records] == ["artifact"]


def test_messages_that_are_too_large_are_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    assert pack_messages([HumanMessage("x" * MESSAGES_BYTES)], "agent")[1] is None
    assert [record.agent_id for record in caplog.records] == ["agent"]


class Profile(BaseModel):
    name: str


class StrictProfile(Profile):
    age: int


class Level(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    level: int

    @field_validator("level")
    @classmethod
    def small(cls, level: int) -> int:
        assert level < 5
        return level


def graph_with(type_: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        own: type_  # type: ignore[valid-type]

    return StateGraph(State).add_node("node", lambda state: {}).add_edge(START, "node").compile()


def after_deploy(value: Any, before: Any, after: Any) -> bool:
    """Whether a value that a graph with a channel of the type `before` has left is used by one with `after`."""
    names = ["own", "messages"]
    then, now = (StateSerializer(types_of(graph_with(type_))) for type_ in (before, after))
    kept = Kept(
        pack_channels({"own": value}, then), forms_of(graph_with(before), names), pack_messages([], "agent")[1], rank=3
    )
    restored, _ = restore(Kept.unpack(kept.pack()), graph_with(after), "agent", now)
    assert restored.messages is not None and restored.rank == 3
    return "own" in restored.channels


@pytest.mark.parametrize(
    ("value", "before", "after", "fits"),
    [
        (["a"], list[str], dict[str, str], False),
        (["a"], Annotated[list[str], operator.add], Annotated[int, operator.add], False),
        (["a"], Annotated[list[str], operator.add], Annotated[list[int], operator.add], False),
        (None, str | None, Annotated[int, operator.add], False),
        (Profile(name="a"), Profile, Mood, False),
        (Profile.model_construct(), Profile, dict[str, Any], False),
        # A class that is gone comes back as its values.
        ({"name": "a"}, Profile, StrictProfile, False),
        (StrictProfile.model_construct(name="a"), Profile, StrictProfile, False),
        (["a"], list[str], Annotated[list[str], operator.add], True),
        (["a"], list[str], list[str] | None, True),
        (["a"], Annotated[list[str], operator.add], Annotated[list, DeltaChannel(lambda one, more: one)], True),
        (["a"], Annotated[list, DeltaChannel(lambda one, more: one)], Annotated[list[str], operator.add], True),
        (Mood("good", 1), Mood, Mood | None, True),
        # LangGraph checks no value: what a graph wrote under the same type is trusted.
        (None, str, str, True),
    ],
)
def test_a_value_is_used_if_it_fits_the_type_that_the_graph_declares_since(
    value: Any, before: Any, after: Any, fits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert after_deploy(value, before, after) is fits
    told = [(record.agent_id, record.channel) for record in caplog.records if "begins anew" in record.message]
    assert told == ([] if fits else [("agent", "own")])


@pytest.mark.parametrize(("level", "fits"), [(4, True), (5, False)])
def test_a_value_that_a_pydantic_state_refuses_is_left_out(level: int, fits: bool) -> None:
    graph = StateGraph(Level).add_node("node", lambda state: {}).add_edge(START, "node").compile()
    kept = Kept(pack_channels({"level": level}), forms_of(graph, ["level"]))
    assert ("level" in restore(kept, graph, "agent")[0].channels) is fits


def test_the_form_of_a_class_changes_with_its_fields() -> None:
    def form_of(**fields: Any) -> str:
        made = dataclasses.make_dataclass("Made", fields.items())
        return forms_of(graph_with(made), ["own"])["own"]

    assert form_of(name=str) == form_of(name=str) != form_of(name=str, age=int)


@pytest.mark.parametrize(
    ("name", "adds"),
    [("adds", True), ("delta", True), ("summing", True), ("model", True), ("plain", False), ("replaced", False)],
)
def test_a_graph_is_given_all_messages_only_if_it_keeps_none(name: str, adds: bool) -> None:
    assert adds_messages(getattr(memory_graphs, name)) is adds
