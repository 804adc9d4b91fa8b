"""The client where a person is needed: approvals, decisions in parts, and questions."""

import math
from pathlib import Path

import pytest
from support.approval_agents import calls, runs
from support.client_exchanges import waiting

from agentic_backend.client import Chat, NotFound, PersonNeeded, Refused, answer, approve, edit, reject

EMAIL = {"to": "ann@example.org"}


async def test_a_person_approves_rejects_and_edits(ann: Chat, notes: Path) -> None:
    tools = calls(("send_email", EMAIL), ("send_email", {"to": "b"}), ("send_email", {"to": "c"}))
    exchange = ann.ask(tools, agent_id="approving")
    asked = await waiting(exchange)
    assert exchange.awaiting == asked.payload
    first, second, third = asked.payload.requests
    await ann.decide(asked, approve(first), reject(second, "not to b"), edit(third, {"to": "d"}))
    await exchange.answer()
    assert sorted(to["to"] for _, to in runs(notes)) == [EMAIL["to"], "d"]
    assert exchange.awaiting is None


async def test_a_part_may_be_decided_first(ann: Chat, notes: Path) -> None:
    exchange = ann.ask(calls(("send_email", EMAIL), ("send_email", {"to": "b"})), agent_id="approving")
    asked = await waiting(exchange)
    await ann.decide(asked, approve(asked.payload.requests[0]))
    rest = await waiting(exchange)
    assert [request.args for request in rest.payload.requests] == [{"to": "b"}]
    await ann.decide(rest, reject(rest.payload.requests[0]))
    await exchange.answer()
    assert [to["to"] for _, to in runs(notes)] == [EMAIL["to"]]


async def test_a_decision_that_is_refused_raises_and_leaves_the_exchange_waiting(ann: Chat, notes: Path) -> None:
    exchange = ann.ask(calls(("send_email", EMAIL)), agent_id="approving")
    asked = await waiting(exchange)
    [request] = asked.payload.requests
    with pytest.raises(Refused) as refused:
        await ann.decide(asked, approve(request.model_copy(update={"args_sha256": "0" * 64})))
    assert refused.value.code == "approval_mismatch" and refused.value.request_id
    await ann.decide(asked, approve(request))
    await exchange.answer()
    with pytest.raises(NotFound):
        await ann.decide(asked, approve(request))


async def test_a_person_answers_a_question(ann: Chat) -> None:
    exchange = ann.ask("go", agent_id="asking")
    asked = await waiting(exchange)
    [request] = asked.payload.requests
    with pytest.raises(ValueError, match="question"):
        approve(request)
    await ann.decide(asked, answer(request, "left"))
    assert await exchange.answer() == "You chose left."


async def test_an_answer_that_needs_a_person_says_so(ann: Chat) -> None:
    with pytest.raises(PersonNeeded) as needed:
        await ann.ask_text("go", agent_id="asking")
    exchange, waiting = needed.value.exchange, needed.value.waiting
    await ann.decide(waiting, answer(waiting.payload.requests[0], "right"))
    assert await exchange.answer() == "You chose right."


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**63, "\ud800"])
async def test_what_json_cant_have_is_not_sent_as_something_else(ann: Chat, notes: Path, value: object) -> None:
    exchange = ann.ask(calls(("send_email", EMAIL)), agent_id="approving")
    asked = await waiting(exchange)
    [request] = asked.payload.requests
    with pytest.raises(ValueError, match="can't be sent as it is"):
        edit(request, {"to": "b", "copies": [value]})
    with pytest.raises(ValueError, match="can't be sent as it is"):
        answer(request, {"copies": value})
    await ann.decide(asked, edit(request, {"to": "b", "copies": 2**62}))
    await exchange.answer()
    assert [sent["copies"] for _, sent in runs(notes)] == [2**62]
