"""How the events of an exchange are rendered as those of a run."""

from typing import Any

from pydantic import TypeAdapter
from support.protocol_samples import AT_TEXT

from agentic_backend.protocol.events import AwaitingHuman, OfExchange
from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.transports.chat_runs.renderer import RunRenderer

EVENTS: TypeAdapter[OfExchange] = TypeAdapter(OfExchange)
PLACE = {"session_id": "s", "exchange_id": "e", "seq": 1}


def rendered(renderer: RunRenderer, type_: str, **fields: Any) -> list[dict[str, Any]]:
    event = EVENTS.validate_python({**PLACE, "type": type_, **fields})
    return [each.model_dump(mode="json") for each in renderer.render(event)]


def row(rank: int, *parts: dict[str, Any], channel: str = "tool_call") -> dict[str, Any]:
    place = {"session_id": "s", "exchange_id": "e", "rank": rank, "timestamp": AT_TEXT}
    return {**place, "role": "assistant", "channel": channel, "parts": list(parts)}


def call(call_id: str, name: str = "look_up") -> dict[str, Any]:
    return {"type": "tool_call", "call_id": call_id, "name": name, "args": {"of": call_id}}


def result(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "call_id": call_id, "content": f"found {call_id}", **fields}


def test_agents_are_told_as_they_take_turns() -> None:
    renderer = RunRenderer("r")
    switch = rendered(renderer, "activity", kind="agent_switch", data={"from": "lead", "to": "cook"})
    assert switch == [{"type": "agent_switch", "agentName": "cook"}]
    handoff = rendered(renderer, "activity", kind="handoff", data={"from": "lead", "to": "cook"})
    assert handoff == [{"type": "handoff", "from": "lead", "to": "cook"}]
    named = {"from": "lead", "from_name": "Head chef", "to": "cook"}
    handoff = rendered(renderer, "activity", kind="handoff", data=named)
    assert handoff == [{"type": "handoff", "from": "Head chef", "to": "cook"}]
    switch = rendered(renderer, "activity", kind="agent_switch", data={**named, "to_name": "Cook"})
    assert switch == [{"type": "agent_switch", "agentName": "Cook"}]
    assert rendered(renderer, "activity", kind="compacted", data={}) == []


def test_what_an_agent_tells_of_its_progress_is_the_state_of_the_run() -> None:
    [progress] = rendered(RunRenderer("r", "c"), "activity", kind="progress", data={"pages": 3})
    assert progress == {
        "type": "agent_progress",
        "runId": "r",
        "status": "running",
        "partialOutput": "",
        "runState": {"pages": 3},
        "correlationId": "c",
    }


def test_the_partial_output_is_the_end_of_a_long_text() -> None:
    renderer = RunRenderer("r")
    rendered(renderer, "delta", block=0, channel="final", text="a" * 100_000 + "end")
    [progress] = rendered(renderer, "activity", kind="progress", data={})
    assert len(progress["partialOutput"]) == 4_000 and progress["partialOutput"].endswith("end")


def test_of_many_tools_the_last_ones_are_named() -> None:
    renderer = RunRenderer("r")
    for rank in range(200):
        rendered(renderer, "stream", message=row(rank, call(f"c{rank}", f"tool {rank}")))
    [progress] = rendered(renderer, "activity", kind="progress", data={})
    assert progress["toolsInvoked"] == [f"tool {rank}" for rank in range(150, 200)]


def test_a_result_names_its_tool_and_how_it_ended() -> None:
    renderer = RunRenderer("r")
    rendered(renderer, "stream", message=row(1, call("c1"), call("c2")))
    ends = rendered(renderer, "stream", message=row(2, result("c1", ok=False), result("c2", ok=True)))
    assert [(end["name"], end["status"], end["toolCallId"]) for end in ends[:2]] == [
        ("look_up", "failed", "c1"),
        ("look_up", "succeeded", "c2"),
    ]
    assert ends[2]["type"] == "agent_progress"


def test_an_id_that_a_model_uses_again_is_another_call() -> None:
    renderer = RunRenderer("r")
    rows = [row(1, call("c", "first")), row(2, result("c")), row(3, call("c", "second")), row(4, result("c"))]
    events = [event for each in rows for event in rendered(renderer, "stream", message=each)]
    assert [event["name"] for event in events if event["type"] == "tool_end"] == ["first", "second"]


def test_after_a_reset_only_what_the_client_lacks_is_told() -> None:
    renderer = RunRenderer("r")
    rows = [row(1, call("c1")), row(2, result("c1")), row(3, call("c2"))]
    rendered(renderer, "stream", message=rows[0])
    again = rendered(renderer, "reset", messages=rows, partial=[])
    assert [event["type"] for event in again] == ["tool_end", "agent_progress", "tool_start"]
    final = {"status": "ok", "messages": rows, "session": None, "usage": {}}
    assert rendered(renderer, "final", **final) == []


def test_a_result_names_the_tool_that_was_called_before_the_decision() -> None:
    known = ChatMessage.model_validate(row(1, call("c1", "send")))
    renderer = RunRenderer("r", known=[known])
    assert rendered(renderer, "stream", message=row(1, call("c1", "send"))) == []
    [end, progress] = rendered(renderer, "stream", message=row(2, result("c1")))
    assert (end["name"], progress["toolsInvoked"]) == ("send", ["send"])


def test_what_is_asked_beside_tool_calls_is_no_approval() -> None:
    requests = [
        {"interrupt_id": "i1", "call_id": "c1", "name": "send", "args": {}, "args_sha256": "0" * 64},
        {"interrupt_id": "i2", "question": "Which one?"},
    ]
    asked = AwaitingHuman.model_validate({**PLACE, "payload": {"requests": requests}})
    [approval, progress] = [each.model_dump(mode="json") for each in RunRenderer("r").pause(asked)]
    expected = {"type": "tool_approval_requested", "name": "send", "args": {}, "toolCallId": "c1", "runId": "r"}
    assert approval == expected
    assert progress["runState"] == {"exchangeId": "e", "questions": ["Which one?"]}
