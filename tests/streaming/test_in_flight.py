"""InFlight: what is at work innermost, and when it gave its last sign of life."""

from uuid import UUID

from langchain_core.outputs import LLMResult

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.run.call_limits import CallLimits
from agentic_backend.streaming.model.in_flight import InFlight, Kind
from agentic_backend.streaming.model.run_callback import RunCallback
from agentic_backend.streaming.model.said import Said

GRAPH, NODE, TOOL, INNER, MODEL, OTHER = (UUID(int=number) for number in range(6))


def names(in_flight: InFlight) -> list[str]:
    return [work.name for work in in_flight.innermost()]


def test_the_innermost_work_is_named() -> None:
    in_flight = InFlight(0)
    in_flight.begin(GRAPH, None, Kind.OTHER, "", 1)
    assert names(in_flight) == []
    in_flight.begin(NODE, GRAPH, Kind.NODE, "tools", 2)
    assert names(in_flight) == ["tools"]
    in_flight.begin(TOOL, NODE, Kind.TOOL, "ask", 3)
    in_flight.begin(OTHER, NODE, Kind.TOOL, "beside", 3)
    assert names(in_flight) == ["ask", "beside"]
    in_flight.begin(INNER, TOOL, Kind.OTHER, "", 4)
    in_flight.begin(MODEL, INNER, Kind.MODEL, "", 5)
    assert names(in_flight) == ["beside", ""]
    in_flight.end(MODEL, 9)
    in_flight.end(INNER, 9)
    assert {work.name: work.sign_at for work in in_flight.innermost()} == {"ask": 9, "beside": 3}
    assert in_flight.last_sign == 9
    in_flight.progress(10)
    assert {work.sign_at for work in in_flight.innermost()} == {10}


async def test_what_a_retriever_does_is_work_of_its_tool() -> None:
    times = iter(range(100))
    limits = CallLimits(AgentSettings(id="a", name="A", class_path="a.b"))
    callback = RunCallback(lambda part: None, Said(), limits, lambda: next(times))
    in_flight = callback.in_flight
    callback.on_tool_start({"name": "look"}, "", run_id=TOOL)
    callback.on_retriever_start({}, "q", run_id=INNER, parent_run_id=TOOL)
    callback.on_llm_start({}, ["q"], run_id=MODEL, parent_run_id=INNER)
    assert [work.kind for work in in_flight.innermost()] == [Kind.MODEL]
    callback.on_llm_end(LLMResult(generations=[]), run_id=MODEL)
    callback.on_retriever_end([], run_id=INNER)
    assert [(work.name, work.sign_at) for work in in_flight.innermost()] == [("look", in_flight.last_sign)]
    callback.on_retriever_start({}, "q", run_id=OTHER, parent_run_id=TOOL)
    callback.on_retriever_error(RuntimeError(), run_id=OTHER)
    assert [(work.name, work.sign_at) for work in in_flight.innermost()] == [("look", in_flight.last_sign)]


def test_what_was_cancelled_is_forgotten_with_its_parent() -> None:
    in_flight = InFlight(0)
    in_flight.begin(GRAPH, None, Kind.OTHER, "", 1)
    in_flight.begin(NODE, GRAPH, Kind.NODE, "tools", 1)
    in_flight.begin(TOOL, NODE, Kind.TOOL, "cancelled", 1)
    assert in_flight.runs_a_tool()
    in_flight.end(NODE, 2)
    assert names(in_flight) == [] and not in_flight.runs_a_tool()
