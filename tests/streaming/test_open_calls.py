"""Calls and their results: each call has one."""

import pytest

from agentic_backend.protocol.messages import Channel, MessageMetadata, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.streaming.transcode.open_calls import OpenCalls


def call(call_id: str, name: str = "search") -> ToolCallPart:
    return ToolCallPart(call_id=call_id, name=name, args={})


def test_a_call_waits_until_it_has_its_result() -> None:
    calls = OpenCalls()
    assert not calls
    assert calls.announce([call("c1", "a"), call("c2", "b")], 1.0, (), streamed=True) == [
        call("c1", "a"),
        call("c2", "b"),
    ]
    assert calls.settle("c1", 1.25) == ("a", 250)
    assert calls
    assert calls.settle("c2", 3.0) == ("b", 2000)
    assert not calls


def test_a_result_is_taken_once_and_only_for_a_known_call() -> None:
    calls = OpenCalls()
    calls.announce([call("c1")], 0.0, (), streamed=True)
    assert calls.settle("c2", 1.0) is None
    assert calls.settle("c1", 1.0) is not None
    assert calls.settle("c1", 2.0) is None


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_that_waits_is_not_announced_again(streamed: bool) -> None:
    calls = OpenCalls()
    calls.announce([call("c1")], 0.0, (), streamed=True)
    assert calls.announce([call("c1"), call("c2")], 1.0, (), streamed=streamed) == [call("c2")]
    assert calls.settle("c1", 1.0) == ("search", 1000)


def test_an_id_may_come_again_from_a_model_but_not_from_a_node_that_repeats_its_message() -> None:
    calls = OpenCalls()
    calls.announce([call("0")], 0.0, (), streamed=True)
    calls.settle("0", 1.0)
    assert calls.announce([call("0")], 2.0, (), streamed=False) == []
    assert calls.announce([call("0", "other")], 2.0, (), streamed=True) == [call("0", "other")]
    assert calls.settle("0", 3.0) == ("other", 1000)


def test_of_two_calls_of_one_id_in_one_message_the_first_counts() -> None:
    calls = OpenCalls()
    assert calls.announce([call("0", "a"), call("0", "b")], 0.0, (), streamed=True) == [call("0", "a")]


def test_a_graph_within_a_tool_is_enclosed_until_the_tool_has_given_its_result() -> None:
    calls = OpenCalls()
    calls.announce([call("c1")], 0.0, ("a:1",), streamed=True)
    assert calls.enclose(("a:1", "tools:2"))
    assert not calls.enclose(("a:1",))
    assert not calls.enclose(("b:1", "tools:2"))
    assert not calls.enclose(())
    calls.settle("c1", 1.0)
    assert not calls.enclose(("a:1", "tools:2"))


def test_what_still_waits_fails_at_the_end() -> None:
    calls = OpenCalls()
    calls.announce([call("c1"), call("c2"), call("c3")], 1.0, (), streamed=True)
    calls.settle("c2", 2.0)
    metadata = MessageMetadata(agent_id="agent")
    drafts = calls.settle_all(3.0, "Stopped.", metadata)
    assert [(draft.role, draft.channel, draft.metadata) for draft in drafts] == [
        (Role.TOOL, Channel.TOOL_RESULT, metadata)
    ] * 2
    assert [part for draft in drafts for part in draft.parts] == [
        ToolResultPart(call_id="c1", ok=False, latency_ms=2000, content="Stopped."),
        ToolResultPart(call_id="c3", ok=False, latency_ms=2000, content="Stopped."),
    ]
    assert not calls
    assert calls.settle_all(4.0, "Again.", metadata) == []
