"""The usage of an exchange is kept once, whatever becomes of its writes."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import MessagesState
from support.held_agents import Hold, held_graph, held_tool_graph
from support.recorded_agents import eventually, one_node
from support.sessions import Sessions, events_of, idle_relay, open_sessions, until

from agentic_backend.auth.user import User
from agentic_backend.config.topics.usage import BudgetsSettings, PriceSettings
from agentic_backend.errors import BudgetExceeded
from agentic_backend.exchange.end.orphan_closing import OrphanClosing
from agentic_backend.exchange.lifecycle import INTERRUPTED
from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.kpi import Kpi
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.stores.protocol.trail import TrailQuery, UsageRecord
from agentic_backend.testing import ScriptedModel, Turn


async def answers_used(sessions: Sessions, exchange_id: str, number: int) -> list[str]:
    """The ids of the records of the exchange's model calls, once there are so many; titles are other calls."""
    query = TrailQuery(UsageRecord, {"exchange_id": exchange_id, "purpose": "answer"})
    async with asyncio.timeout(10):
        while len(found := (await sessions.store.real.trail(query)).records) < number:
            await asyncio.sleep(0.01)
    return [record.id for record in found]


async def test_a_write_whose_answer_is_lost_keeps_each_call_once(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("call work()", agent_id="working")
    await until(log, "started")
    sessions.store.lose_next_answer("append")
    await eventually(lambda: hold.held)
    hold.released.set()
    await events_of(log)
    assert len(await answers_used(sessions, log.exchange_id, 2)) == 2


async def test_who_was_taken_for_dead_keeps_the_calls_that_it_has_paid_for(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("call work()", agent_id="working")
    await eventually(lambda: hold.held)
    before = await answers_used(sessions, log.exchange_id, 1)
    sessions.store.go_away("append", "add_trail")
    hold.released.set()
    running = sessions.relay.running(log.exchange_id)
    assert running is not None
    await eventually(lambda: not running.model_calls_begun_at)
    record = await sessions.store.real.get_exchange(log.exchange_id)
    assert record is not None
    await asyncio.sleep(0.3)
    await OrphanClosing(sessions.store.real, idle_relay(), Kpi(), lambda *_: None).close(record, INTERRUPTED)
    sessions.store.come_back()
    assert (await events_of(log))[-1]["status"] == "interrupted"
    after = await answers_used(sessions, log.exchange_id, 2)
    assert len(set(after)) == 2 and set(before) < set(after)


async def test_the_usage_of_a_deleted_session_stays(sessions: Sessions, hold: Hold) -> None:
    """A budget must not be spent twice by whoever deletes what they have asked."""
    log = await sessions.begin("call work()", agent_id="working")
    await eventually(lambda: hold.held)
    await answers_used(sessions, log.exchange_id, 1)
    assert log.session_id is not None
    await sessions.store.real.delete_session(log.session_id)
    hold.released.set()
    await events_of(log)
    assert len(await answers_used(sessions, log.exchange_id, 2)) == 2


async def test_a_group_spends_its_budget_together(tmp_path: Path) -> None:
    price = PriceSettings.model_validate(
        {"model": "*", "input_per_million": 1_000_000, "output_per_million": 1_000_000, "from": "2026-01-01"}
    )
    budgets = BudgetsSettings.model_validate({"groups": {"class": {"cost": 1}}, "paying_groups": ["class"]})
    ann, bob = (User(id=name, name=name, groups=frozenset({"class", "a club"})) for name in ("ann", "bob"))
    agents = {"plain": build(OfflineChatModel(words_per_second=0))}
    async with open_sessions(tmp_path, agents, prices=[price], budgets=budgets) as sessions:
        log = await sessions.begin("hello", user=ann)
        assert (await events_of(log))[-1]["status"] == "ok"
        [record] = (await sessions.store.real.trail(TrailQuery(UsageRecord, {"purpose": "answer"}))).records
        assert (record.user_id, record.group) == ("ann", "class")
        with pytest.raises(BudgetExceeded):
            await sessions.begin("hello", user=bob)
        await events_of(await sessions.begin("hello", user=User(id="cy", name="cy")))


# A token of an answer costs 1 USD; a call reserves 4,096.
DEAR = PriceSettings.model_validate(
    {"model": "*", "input_per_million": 0, "output_per_million": 1_000_000, "from": "2026-01-01"}
)


async def test_what_runs_reserves_what_it_may_cost(tmp_path: Path, hold: Hold) -> None:
    budgets = BudgetsSettings.model_validate({"users": {"alice": {"cost": 5_000}}})
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, prices=[DEAR], budgets=budgets) as sessions:
        logs = await asyncio.gather(*[sessions.begin("hello", mode="query") for _ in range(10)])
        refused = logs[2:]
        for log in refused:
            last = (await events_of(log))[-1]
            assert (last["status"], last["error"]["code"]) == ("error", "budget_exceeded")
        assert hold.held == 2
        with pytest.raises(BudgetExceeded):
            await sessions.begin("hello")
        hold.released.set()
        assert [(await events_of(log))[-1]["status"] for log in logs[:2]] == ["ok", "ok"]
        assert (await sessions.ask("hello"))[-1]["status"] == "ok"


async def test_a_stopped_answer_counts_for_the_budget_and_reserves_nothing_more(tmp_path: Path, hold: Hold) -> None:
    budgets = BudgetsSettings.model_validate({"users": {"alice": {"cost": 2}}})
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, prices=[DEAR], budgets=budgets) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        running = sessions.relay.running(log.exchange_id)
        assert running is not None
        running.stop()
        assert (await events_of(log))[-1]["status"] == "stopped"
        with pytest.raises(BudgetExceeded, match="is used up"):
            await sessions.begin("hello")


async def _waits_for(call: Any) -> None:
    await asyncio.wait_for(call, 0.05)


async def _times_out(call: Any) -> None:
    async with asyncio.timeout(0.05):
        await call


@pytest.mark.parametrize("wait", [_waits_for, _times_out])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_call_that_its_node_gives_up_reserves_nothing_more(tmp_path: Path, wait: Any, streams: bool) -> None:
    model = ScriptedModel(*[Turn("Slow.", delay_s=1)] * 3, "Well.", streams=streams)

    async def node(state: MessagesState) -> dict[str, Any]:
        for _ in range(3):
            with suppress(TimeoutError):
                await wait(model.ainvoke(state["messages"]))
        return {"messages": [await model.ainvoke(state["messages"])]}

    budgets = BudgetsSettings.model_validate({"users": {"alice": {"cost": 5_000}}})
    async with open_sessions(tmp_path, {"plain": one_node(node)}, prices=[DEAR], budgets=budgets) as sessions:
        assert (await sessions.ask("hello"))[-1]["status"] == "ok"


async def test_an_exchange_ends_between_two_calls_once_the_budget_is_used_up(tmp_path: Path) -> None:
    budgets = BudgetsSettings.model_validate({"users": {"alice": {"cost": 1}}})
    agents = {"plain": held_tool_graph(released())}
    async with open_sessions(tmp_path, agents, prices=[DEAR], budgets=budgets) as sessions:
        log = await sessions.begin("call work()")
        *_, last = await events_of(log)
        assert (last["status"], last["error"]["code"]) == ("error", "budget_exceeded")
        said = await sessions.stored(log.session_id)
        assert [message["channel"] for message in said][-3:] == ["tool_call", "tool_result", "error"]
        assert said[-2]["parts"][0]["ok"], "what was done before is kept"
        assert len(await answers_used(sessions, log.exchange_id, 1)) == 1


def released() -> Hold:
    hold = Hold()
    hold.released.set()
    return hold
