"""Where a run starts and stops: from what was kept before it, and on from a pause, in another process too."""

import copy
import threading
from typing import Annotated, Any

import pytest
from graphs import own_state, swarm
from graphs.own_state import Mood
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt, interrupt
from typing_extensions import TypedDict

from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.state.kept_state import Packed, pack_channels
from agentic_backend.agents.state.state_serializer import StateSerializer, serializer
from agentic_backend.agents.state.state_types import types_of
from agentic_backend.errors import CheckpointMissing

Graph = CompiledStateGraph[Any, Any, Any, Any]
CONFIG: Any = {"configurable": {"thread_id": "exchange"}}


def serving(graph: Graph, checkpoints: ExchangeCheckpoints) -> Graph:
    served = copy.copy(graph)
    served.checkpointer = checkpoints
    return served


def asks(name: str) -> Any:
    """A node that calls a tool in words, asks a person whether it may, and notes the answer."""

    def node(state: MessagesState) -> dict[str, Any]:
        call = ToolCall(name=name, args={"path": "/a", "deep": [1, {"é": None}]}, id=f"call-{name}")
        answer = interrupt({"question": name, "args": call["args"]})
        return {"messages": [AIMessage(f"{name}: {answer}", tool_calls=[call])]}

    return node


def asking_graph() -> Graph:
    """Two nodes ask at the same time, one of them two graphs deep; the first node runs before both."""
    inner = StateGraph(MessagesState).add_node("ask", asks("inner")).add_edge(START, "ask").compile()
    middle = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner").compile()
    graph = StateGraph(MessagesState)
    graph.add_node("first", lambda state: {"messages": [AIMessage("Let me see.")]})
    graph.add_node("outer", asks("outer"))
    graph.add_node("middle", middle)
    graph.add_edge(START, "first").add_edge("first", "outer").add_edge("first", "middle")
    return graph.compile()


async def run(graph: Graph, given: Any) -> tuple[dict[str, Any], list[Interrupt]]:
    """The values that the graph ends with, and what it waits for."""
    ended = await graph.ainvoke(given, CONFIG, durability="async")
    return ended, ended.get("__interrupt__", [])


async def test_a_run_starts_from_values_that_did_not_pass_its_reducers() -> None:
    serde = StateSerializer(types_of(own_state.graph))
    kept = pack_channels({"log": ["before"], "asked": 41, "mood": Mood("good", 6), "gone": 1}, serde)
    checkpoints = ExchangeCheckpoints(kept, serde=serde)
    ended, _ = await run(serving(own_state.graph, checkpoints), {"messages": [HumanMessage("hello")]})
    assert (ended["asked"], ended["mood"]) == (42, Mood("good", 7))


def test_a_run_in_a_thread_starts_from_them_too() -> None:
    graph = serving(swarm.graph, ExchangeCheckpoints(pack_channels({"active_agent": "bob"})))
    ended = graph.invoke({"messages": [HumanMessage("hello")]}, CONFIG, durability="async")
    assert ended["messages"][-1].name == "bob"


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_paused_run_goes_on_where_it_stopped(elsewhere: bool) -> None:
    checkpoints = ExchangeCheckpoints()
    _, waiting = await run(serving(asking_graph(), checkpoints), {"messages": [HumanMessage("hello", id="asked")]})
    assert sorted(asked.value["question"] for asked in waiting) == ["inner", "outer"]
    for answers in ({"inner": "yes"}, {"outer": "no"}):
        checkpoints = ExchangeCheckpoints.unpack(checkpoints.pack()) if elsewhere else checkpoints
        resume = {asked.id: answers[name] for asked in waiting if (name := asked.value["question"]) in answers}
        ended, waiting = await run(serving(asking_graph(), checkpoints), Command(resume=resume))
    assert waiting == []
    texts = [message.text for message in ended["messages"]]
    assert texts[:2] == ["hello", "Let me see."] and sorted(texts[2:]) == ["inner: yes", "outer: no"]
    assert ended["messages"][-1].tool_calls[0]["args"] == {"path": "/a", "deep": [1, {"é": None}]}


async def test_what_is_resumed_keeps_what_it_had_from_the_exchange_before() -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        notes: list[str]

    def note(state: State) -> dict[str, Any]:
        return {"notes": [*state["notes"], interrupt("which?")], "messages": [AIMessage("noted")]}

    graph = StateGraph(State).add_node("note", note).add_edge(START, "note").compile()
    checkpoints = ExchangeCheckpoints(pack_channels({"notes": ["before"]}))
    await run(serving(graph, checkpoints), {"messages": [HumanMessage("hello")]})
    resumed = ExchangeCheckpoints.unpack(checkpoints.pack())
    ended, _ = await run(serving(graph, resumed), Command(resume="now"))
    assert ended["notes"] == ["before", "now"]


async def test_what_can_not_be_serialized_is_told_when_it_is_packed_and_not_before() -> None:
    class State(TypedDict):
        lock: Any

    def hold(state: State) -> dict[str, Any]:
        return {"lock": threading.Lock()}

    graph = StateGraph(State)
    graph.add_node("hold", hold).add_node("ask", lambda state: interrupt("well?"))
    graph.add_edge(START, "hold").add_edge("hold", "ask")
    checkpoints = ExchangeCheckpoints()
    _, waiting = await run(serving(graph.compile(), checkpoints), {"lock": None})
    assert len(waiting) == 1
    with pytest.raises((TypeError, ValueError)):
        checkpoints.pack()


_OTHERS = [serializer.dumps_typed({"version": 1})[1], serializer.dumps_typed({})[1]]


@pytest.mark.parametrize("foreign", [*_OTHERS, b"", b"garbage", b"\x00" * 64])
def test_what_is_no_checkpoint_of_this_version_is_refused(foreign: bytes) -> None:
    with pytest.raises(CheckpointMissing):
        ExchangeCheckpoints.unpack(foreign)


@pytest.mark.parametrize("data", [b"\xc1", b"", None, "text", b"\xc7\x01\x00\x01"])
def test_a_value_that_can_t_be_read_is_a_missing_checkpoint(data: Any) -> None:
    checkpoints = ExchangeCheckpoints({"messages": Packed("msgpack", data)})
    with pytest.raises(CheckpointMissing):
        checkpoints.get_tuple(CONFIG)
