"""Graphs of other people's that pause, resumed in the form that each of them expects."""

from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from support.decisions import NOW, decide, requests_in, waiting_for
from support.pausing_graph import PausingGraph
from support.turn_model import Turn, TurnModel, call

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.sessions.waiting.approvals import decided
from agentic_backend.stores.records import HumanDecision


def asking(*questions: Any, schema: Any = None) -> PausingGraph:
    """Asks one question after the other, and says what it has heard."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(repr([interrupt(question, response_schema=schema) for question in questions]))]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return PausingGraph(graph.compile())


def answered(waiting: Any, answer: Any) -> list[HumanDecision]:
    frame = HumanDecisions(answers={waiting[0].id: answer})
    return decided(waiting_for(waiting), frame, "ann", NOW)


async def heard(graph: PausingGraph) -> str:
    return (await graph.messages())[-1].text


async def test_questions_are_answered_one_after_the_other() -> None:
    graph = asking(
        "Your name?", {"title": "Travel", "question": "Where to?", "choices": ["Rome", {"id": "p", "label": "Paris"}]}
    )
    waiting = await graph.ask()
    assert requests_in(waiting_for(waiting))[0].question == "Your name?"
    decisions = answered(waiting, "Ann")
    waiting = await graph.settle(waiting, decisions)
    with pytest.raises(BadFrame, match=r"payload\.answers\.\w+: expected the id of one of the choices"):
        answered(waiting, "Paris")
    assert await graph.settle(waiting, decisions + answered(waiting, "p")) == []
    assert await heard(graph) == "['Ann', 'p']"


class Booking(BaseModel):
    city: Literal["Rome", "Paris"]
    nights: int


async def test_an_answer_is_checked_against_what_the_graph_takes() -> None:
    graph = asking("Book what?", schema=Booking)
    waiting = await graph.ask()
    for wrong in ({"city": "Rome"}, {"city": "Oslo", "nights": 2}, {"city": "Rome", "nights": "two"}, "Rome", 7):
        with pytest.raises(BadFrame):
            answered(waiting, wrong)
    assert await graph.settle(waiting, answered(waiting, {"city": "Rome", "nights": 2})) == []
    assert await heard(graph) == "[Booking(city='Rome', nights=2)]"


@pytest.mark.parametrize("answer", [None, "", 0, False, [], {}, {"a": [1, None]}, "text", 1.5])
async def test_any_answer_arrives_as_it_was_given(answer: Any) -> None:
    graph = asking({"question": "What?"})
    waiting = await graph.ask()
    assert await graph.settle(waiting, answered(waiting, answer)) == []
    assert await heard(graph) == repr([answer])


def with_middleware(mode: Any, calls: list[Any], *allowed: Any) -> tuple[PausingGraph, list[str]]:
    ran: list[str] = []

    def send(to: str) -> str:
        ran.append(to)
        return f"sent to {to}"

    tool = StructuredTool.from_function(send, description="Send.")
    on = {"send": {"allowed_decisions": list(allowed)}}
    middleware = HumanInTheLoopMiddleware(interrupt_on=on, interrupt_mode=mode)  # type: ignore[arg-type]
    model = TurnModel(turns=[Turn(calls=calls), Turn("done")])
    return PausingGraph(create_agent(model, [tool], middleware=[middleware])), ran


async def test_a_batch_takes_the_decisions_in_its_own_order() -> None:
    calls = [call("send", f"c{place}", to=name) for place, name in enumerate(["ann", "bob", "eve"])]
    graph, ran = with_middleware("batched", calls, "approve", "edit", "reject")
    waiting = await graph.ask()
    decisions = decide(waiting, ("reject", "Not her."), "approve", ("edit", {"to": "zoe"}))
    assert await graph.settle(waiting, decisions[:2]) == waiting
    assert ran == []
    assert await graph.settle(waiting, decisions[::-1]) == []
    assert sorted(ran) == ["bob", "zoe"]
    assert "Not her." in "".join(await graph.results())


async def test_a_call_that_can_only_be_answered_is_a_question() -> None:
    graph, ran = with_middleware("per_call", [call("send", "c1", to="ann")], "respond")
    waiting = await graph.ask()
    [request] = requests_in(waiting_for(waiting))
    assert (request.call_id, request.allowed) == (None, ["answer"])
    with pytest.raises(BadFrame, match="expected string"):
        answered(waiting, 7)
    assert await graph.settle(waiting, answered(waiting, "She knows.")) == []
    assert (ran, await graph.results()) == ([], ["She knows."])


@pytest.mark.parametrize("allowed", [("approve",), ("reject",), ("edit",), ("respond", "approve")])
async def test_only_what_the_author_allows_is_offered(allowed: tuple[str, ...]) -> None:
    graph, _ = with_middleware("per_call", [call("send", "c1", to="ann")], *allowed)
    [request] = requests_in(waiting_for(await graph.ask()))
    assert request.allowed == [action for action in allowed if action != "respond"]
