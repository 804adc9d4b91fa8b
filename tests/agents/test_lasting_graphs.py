"""What a session keeps of subgraphs with a memory of their own, and what a deploy does to it."""

import operator
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from agentic_backend.agents.state import lasting_graphs
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.state.lasting_graphs import lasting, pack_lasting, unpack_lasting


def graph_with(count: Any, reducer: Any = operator.add, one: Any = 1) -> Any:
    """A graph with a subgraph that adds `one` to its `count` and its message to what it has heard."""
    State = TypedDict("State", {"count": Annotated[count, reducer], "heard": Annotated[list, operator.add]})  # noqa: UP013
    builder = StateGraph(State)
    builder.add_node("count", lambda state: {"count": one})
    builder.add_edge(START, "count")
    inner = builder.compile(checkpointer=True)

    async def run(state: MessagesState) -> dict[str, Any]:
        kept = await inner.ainvoke({"heard": [state["messages"][-1].text]})
        return {"messages": [("ai", f"{kept['count']} {kept['heard']}")]}

    outer = StateGraph(MessagesState)
    outer.add_node("run", run)
    outer.add_edge(START, "run")
    return outer.compile()


async def answer(graph: Any, packed: bytes | None) -> tuple[str, bytes | None]:
    """The answer of a run that begins with the packed memory, and the memory that it leaves."""
    checkpoints = ExchangeCheckpoints(run_id="e1")
    if packed is not None:
        snapshot = unpack_lasting(packed, graph, "agent")
        assert snapshot is not None
        checkpoints.add(snapshot)
    graph.checkpointer = checkpoints
    state = await graph.ainvoke({"messages": [("human", "go")]}, {"configurable": {"thread_id": "s1"}})
    left = lasting(checkpoints.snapshot())
    assert left is not None
    return state["messages"][-1].text, pack_lasting(left, graph, "agent")


async def test_what_is_kept_is_the_last_state_alone() -> None:
    packed, sizes = None, []
    for number in range(1, 5):
        text, packed = await answer(graph_with(int), packed)
        assert text == f"{number} {['go'] * number}" and packed is not None
        sizes.append(len(packed))
    assert max(sizes) - min(sizes) < 100


async def test_a_channel_that_changes_its_type_begins_anew_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, packed = await answer(graph_with(int), None)
    text, packed = await answer(graph_with(list, one=["x"]), packed)
    assert text == "['x'] ['go', 'go']"
    assert [record.channel for record in caplog.records if hasattr(record, "channel")] == ["count"]
    assert (await answer(graph_with(list, one=["y"]), packed))[0] == "['x', 'y'] ['go', 'go', 'go']"


async def test_it_is_as_old_as_the_run_that_begins_with_it_for_a_machine_whose_clock_is_behind() -> None:
    graph = graph_with(int)
    _, packed = await answer(graph, None)
    assert packed is not None
    before = str(uuid6(clock_seq=0))
    snapshot = unpack_lasting(packed, graph, "agent")
    assert snapshot is not None and all(before < checkpoint_id for _, checkpoint_id in snapshot.checkpoints)
    assert len({checkpoint_id for _, checkpoint_id in snapshot.checkpoints}) == len(snapshot.checkpoints)


async def test_what_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(lasting_graphs, "_MOST_BYTES", 100)
    _, packed = await answer(graph_with(int), None)
    assert packed is None and "too large" in caplog.text


def test_what_can_not_be_read_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    assert unpack_lasting(b"of another version", graph_with(int), "agent") is None
    assert caplog.messages == ["subgraph memory not readable"]
