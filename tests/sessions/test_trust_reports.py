"""Trust summaries of exchanges as they are stored: what ran and why, what the answer rests on, and who objected."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.graph import START, MessagesState, StateGraph
from services.mongodb import further_on_mongodb
from support.held_agents import Hold
from support.recorded_agents import entry_of, eventually
from support.session_fixtures import Serve
from support.sessions import USER, Sessions, open_sessions, until
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.background import background
from agentic_backend.agents.leader_flow import LeaderFlow
from agentic_backend.agents.permissions import needs
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.errors import ExchangeNotFound, RateLimited
from agentic_backend.protocol.frames import Decision, HumanDecisions
from agentic_backend.protocol.messages import Channel, ExchangeStatus
from agentic_backend.protocol.trust import Ground, ToolTrust, TrustSummary
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.stores.tables import TOOL_CALLS

ROLES = PermissionsSettings(roles={"student": ("todos:*",)})
STUDENT = replace(USER, id="ann", roles=frozenset({"student"}))
UNASKED = "The settings of the agent 'agent' don't require approval of this tool."


async def weather(city: str) -> str:
    """Tell the weather."""
    return json.dumps({"city": city, "condition": "sunny", "temp_c": 21})


async def fail(why: str) -> str:
    """Fail."""
    raise ToolException(why)


def calling(*turns: Turn, tools: Sequence[Any] = (weather, fail)) -> CompiledGraph:
    made = [
        one if not callable(one) else StructuredTool.from_function(coroutine=one, handle_tool_error=True)
        for one in tools
    ]
    return create_agent(TurnModel(turns=list(turns)), tools=made)


async def trust(sessions: Sessions, log: ExchangeLog, user: User = USER) -> TrustSummary:
    return await TrustReports(sessions.store.real).of(user, log.exchange_id)


async def ended(sessions: Sessions, message: str = "go", **ask: Any) -> ExchangeLog:
    log = await sessions.begin(message, **ask)
    await log.wait_ended()
    return log


def facts(tool: ToolTrust) -> tuple[str, str, str]:
    return tool.name, tool.outcome, tool.approval


@further_on_mongodb("mongodb")
async def test_statements_rest_on_the_results_that_have_their_figures_and_words(serve: Serve) -> None:
    turns = [
        Turn(calls=[call("weather", "c1", city="Paris")]),
        Turn("It is 21 degrees and sunny in Paris. Take a hat!"),
    ]
    async with serve({"agent": calling(*turns)}) as own:
        log = await ended(own, "What's the weather in Paris?")
        found = await trust(own, log)
    assert (found.exchange_id, found.status, found.cut) == (log.exchange_id, ExchangeStatus.OK, False)
    [tool] = found.tools
    assert (tool.id, tool.call_id, facts(tool)) == ("t1", "c1", ("weather", "ok", "not_required"))
    assert (tool.allowed_because, tool.agent_id, tool.needs) == (UNASKED, "agent", [])
    assert tool.decided_by is None and tool.latency_ms is not None
    assert [(one.text, one.rests_on) for one in found.statements] == [
        ("It is 21 degrees and sunny in Paris.", [Ground(id="t1", by="match")]),
        ("Take a hat!", []),
    ]
    assert found.answer_rank == log.messages[-1].rank


@further_on_mongodb("mongodb")
async def test_a_failed_call_supports_nothing(serve: Serve) -> None:
    turns = [
        Turn(calls=[call("fail", "c1", why="The mail to Quentin Blake about invoices was refused.")]),
        Turn("The mail to Quentin Blake about invoices was sent."),
    ]
    async with serve({"agent": calling(*turns)}) as own:
        found = await trust(own, await ended(own))
    assert [facts(one) for one in found.tools] == [("fail", "failed", "not_required")]
    assert [one.rests_on for one in found.statements] == [[]]


class Careful(AgentFlow):
    async def async_init(self) -> None:
        calls = [call("weather", f"c{number}", city=f"Town {number}") for number in range(1, 5)]
        model = TurnModel(turns=[Turn(calls=calls), Turn("done")])
        tools = [StructuredTool.from_function(coroutine=weather)]
        self._graph = create_agent(model, tools=tools, middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


async def asked(sessions: Sessions) -> tuple[ExchangeLog, list[dict[str, Any]]]:
    log = await sessions.begin("go")
    return log, (await until(log, "awaiting_human"))["payload"]["requests"]


async def decide(sessions: Sessions, log: ExchangeLog, requests: Sequence[dict[str, Any]], *actions: str) -> None:
    decisions = [
        Decision.model_validate(
            {
                "call_id": request["call_id"],
                "args_sha256": request["args_sha256"],
                "action": action,
                "args": {"city": "Rome"} if action == "edit" else None,
            }
        )
        for request, action in zip(requests, actions, strict=False)
    ]
    payload = HumanDecisions(decisions=decisions)
    log = await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, payload, None)
    if len(actions) == len(requests):
        await log.wait_ended()


async def test_who_has_approved_edited_and_rejected(serve: Serve) -> None:
    async with serve({"agent": entry_of(Careful, "agent", require_approval=["weather"])}) as own:
        log, requests = await asked(own)
        waiting = await trust(own, log)
        assert waiting.status is ExchangeStatus.AWAITING_HUMAN
        assert [facts(one) for one in waiting.tools] == [("weather", "pending", "awaited")] * 4
        assert waiting.statements == [] and waiting.answer_rank is None
        await decide(own, log, requests, "approve", "edit", "reject", "approve")
        found = await trust(own, log)
    assert [(facts(one)[1:], one.decided_by) for one in found.tools] == [
        (("ok", "approved"), USER.id),
        (("ok", "edited"), USER.id),
        (("rejected", "rejected"), USER.id),
        (("ok", "approved"), USER.id),
    ]
    assert found.tools[0].allowed_because == "The user approved of the call."
    assert found.tools[1].allowed_because == "The user changed its arguments and approved of it."
    assert found.tools[2].allowed_because == "The user rejected the call."


async def test_what_nobody_decided_in_time_has_expired(serve: Serve) -> None:
    entry = entry_of(Careful, "agent", require_approval=["weather"])
    async with serve({"agent": entry}, limits=LimitsSettings(human_timeout_s=0.05), lease_s=0.9) as own:
        log, _ = await asked(own)
        await own.idle(log.session_id)
        found = await trust(own, log)
    assert [facts(one)[1:] for one in found.tools] == [("rejected", "expired")] * 4
    assert found.tools[0].decided_by is None
    assert found.tools[0].allowed_because == "Nobody decided in time."


@further_on_mongodb("mongodb")
async def test_an_agent_that_asks_in_a_form_of_its_own_has_approved_calls_too(serve: Serve) -> None:
    asks = HumanInTheLoopMiddleware[Any, Any, Any]({"weather": True})
    model = TurnModel(turns=[Turn(calls=[call("weather", f"c{n}", city=f"Town {n}") for n in (1, 2)]), Turn("done")])
    graph = create_agent(model, [StructuredTool.from_function(coroutine=weather)], middleware=[asks])
    async with serve({"agent": graph}) as own:
        log, requests = await asked(own)
        assert requests[0]["call_id"] not in ("c1", "c2")
        await decide(own, log, requests, "approve", "reject")
        found = await trust(own, log)
    assert [(one.call_id, *facts(one)[1:], one.decided_by) for one in found.tools] == [
        ("c1", "ok", "approved", USER.id),
        ("c2", "rejected", "rejected", USER.id),
    ]


async def test_a_stopped_call_was_cancelled_and_says_why_it_ran(serve: Serve, hold: Hold) -> None:
    async def work() -> str:
        """Work."""
        await hold.wait()
        return "worked"

    async with serve({"agent": calling(Turn(calls=[call("work", "c1")]), tools=[work])}) as own:
        log = await own.begin("go")
        await eventually(lambda: hold.held and Channel.TOOL_CALL in [message.channel for message in log.messages])
        running = await trust(own, log)
        assert (running.status, facts(running.tools[0])) == (
            ExchangeStatus.RUNNING,
            ("work", "pending", "not_recorded"),
        )
        await own.orchestrator.stop(USER, log.session_id, None)
        await log.wait_ended()
        found = await trust(own, log)
    assert found.status is ExchangeStatus.STOPPED
    assert facts(found.tools[0]) == ("work", "cancelled", "not_required")
    assert found.tools[0].allowed_because == UNASKED


@further_on_mongodb("mongodb")
async def test_permissions_allow_and_forbid(serve: Serve) -> None:
    @needs("todos:write:self")
    @tool
    def mine() -> str:
        """Write."""
        return "written"

    @needs("grades:write:all")
    @tool
    def grade() -> str:
        """Grade."""
        return "graded"

    graph = calling(Turn(calls=[call("mine", "c1"), call("grade", "c2")]), Turn("done"), tools=[mine, grade])
    async with serve({"agent": graph}, permissions=ROLES) as own:
        found = await trust(own, await ended(own, user=STUDENT), STUDENT)
    allowed, forbidden = found.tools
    assert (facts(allowed), allowed.needs) == (("mine", "ok", "not_required"), ["todos:write:self"])
    assert allowed.allowed_because == f"{UNASKED} It needs todos:write:self, which the user's roles give."
    assert facts(forbidden)[:2] == ("grade", "forbidden")
    assert "needs the permission grades:write:all" in forbidden.allowed_because


async def test_the_row_tells_why_a_call_ran_after_the_catalog_has_changed(tmp_path: Path) -> None:
    turns = [Turn(calls=[call("weather", "c1", city="Paris")]), Turn("done")]
    async with open_sessions(tmp_path, {"agent": calling(*turns)}) as own:
        log = await ended(own)
    async with open_sessions(tmp_path, {"agent": entry_of(Careful, "agent", require_approval=["weather"])}) as own:
        found = await trust(own, log)
    assert facts(found.tools[0]) == ("weather", "ok", "not_required")


async def test_rows_of_an_older_server_say_that_nothing_was_recorded(serve: Serve) -> None:
    turns = [Turn(calls=[call("weather", "c1", city="Paris")]), Turn("done")]
    async with serve({"agent": calling(*turns)}) as own:
        log = await ended(own)
        page = await own.store.real.trail(TrailQuery(ToolCallRecord, {"exchange_id": log.exchange_id}))
        await own.store.real.add_trail([replace(record, allowance=None) for record in page.records])
        found = await trust(own, log)
    assert (found.tools[0].approval, found.tools[0].allowed_because) == ("not_recorded", "Not recorded.")


@further_on_mongodb("mongodb")
async def test_code_of_an_agent_that_calls_a_tool_unasked_is_told(serve: Serve) -> None:
    look = StructuredTool.from_function(coroutine=weather, name="weather")

    async def answer(state: MessagesState) -> dict[str, Any]:
        made = call("weather", "c1", city="Paris")
        return {"messages": [AIMessage("", tool_calls=[made]), await look.ainvoke(made), AIMessage("done")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
    async with serve({"agent": graph}) as own:
        found = await trust(own, await ended(own))
    assert (facts(found.tools[0]), found.tools[0].allowed_because) == (("weather", "ok", "not_required"), UNASKED)


async def test_what_runs_in_the_background_is_pending_until_it_has_ended(serve: Serve, hold: Hold) -> None:
    @background
    @tool
    async def work() -> str:
        """Work."""
        await hold.wait()
        return "Colonel Mustard in the library with 4711 candlesticks"

    turns = [Turn(calls=[call("work", "c1")]), Turn("It was Colonel Mustard in the library.")]
    async with serve({"agent": calling(*turns, tools=[work])}) as own:
        log = await ended(own)
        [running] = (await trust(own, log)).tools
        assert (facts(running), running.in_background) == (("work", "pending", "not_required"), True)
        hold.released.set()

        async with asyncio.timeout(10):
            while (await trust(own, log)).tools[0].outcome == "pending":
                await asyncio.sleep(0.02)
        found = await trust(own, log)
    assert (facts(found.tools[0]), found.tools[0].in_background) == (("work", "ok", "not_required"), True)
    assert found.statements[0].rests_on == [Ground(id="t1", by="match")]


class Leader(LeaderFlow):
    async def async_init(self, crew: Any = None) -> None:
        asks = TurnModel(
            turns=[Turn(calls=[call("ask_expert", "a1", question="?")]), Turn("It is 21 degrees and sunny in Paris.")]
        )
        self._graph = create_agent(asks, tools=self.delegation_tools(crew))

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


def crew_of(*expert_turns: Turn) -> CatalogAgent:
    expert = entry_of(calling(*expert_turns), "expert")
    return replace(entry_of(Leader, "agent", type="leader", crew=["expert"]), crew=[expert])


@further_on_mongodb("mongodb")
async def test_what_another_agent_says_supports_nothing_but_the_tools_of_that_agent_do(serve: Serve) -> None:
    said = Turn("It is 21 degrees and sunny in Paris.")
    async with serve({"agent": crew_of(said)}) as own:
        hearsay = await trust(own, await ended(own))
    async with serve({"agent": crew_of(Turn(calls=[call("weather", "c1", city="Paris")]), said)}) as own:
        looked_up = await trust(own, await ended(own))
    assert [one.rests_on for one in hearsay.statements] == [[]]
    [weather_call] = [one for one in looked_up.tools if one.name == "weather"]
    assert looked_up.statements[0].rests_on == [Ground(id=weather_call.id, by="match")]
    assert "'expert'" in weather_call.allowed_because


async def test_a_foreign_an_unknown_and_a_deleted_exchange_are_not_found(serve: Serve) -> None:
    async with serve({"agent": calling(Turn("done"))}) as own:
        log = await ended(own)
        with pytest.raises(ExchangeNotFound):
            await trust(own, log, STUDENT)
        await own.service.delete(USER, log.session_id or "")
        with pytest.raises(ExchangeNotFound):
            await trust(own, log)
        query = await ended(own, mode="query")
        with pytest.raises(ExchangeNotFound):
            await trust(own, query)


@pytest.mark.parametrize("size", [10, 20_000])
async def test_of_a_large_exchange_some_calls_are_told_each_once(serve: Serve, size: int) -> None:
    ids = [f"c{number}" for number in range(250)]

    def answer(state: MessagesState) -> dict[str, Any]:
        made = AIMessage("", tool_calls=[call("look", call_id) for call_id in ids])
        results = [ToolMessage("x" * size, tool_call_id=call_id) for call_id in ids]
        return {"messages": [made, *results, AIMessage("done")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
    async with serve({"agent": graph}) as own:
        found = await trust(own, await ended(own))
    assert found.cut
    told = [tool.call_id for tool in found.tools]
    assert len(told) == 200 and told == [call_id for call_id in ids if call_id in told]
    assert {tool.outcome for tool in found.tools} == {"ok"}


async def test_what_retention_has_deleted_is_told_by_the_messages(serve: Serve) -> None:
    turns = [Turn(calls=[call("weather", "c1", city="Paris")]), Turn("It is 21 degrees and sunny in Paris.")]
    async with serve({"agent": calling(*turns)}) as own:
        log = await ended(own)
        assert await own.store.real.delete_old(TOOL_CALLS, own.store.now() + timedelta(days=1), 10) == 1
        found = await trust(own, log)
    assert [facts(one) for one in found.tools] == [("weather", "ok", "not_recorded")]
    assert found.statements[0].rests_on == [Ground(id="t1", by="match")]


@further_on_mongodb("mongodb")
async def test_few_summaries_are_computed_at_once_and_too_many_are_refused(serve: Serve) -> None:
    async with serve({"agent": calling(Turn("done"))}) as own:
        log = await ended(own)
        reports = TrustReports(own.store.as_store)
        released = own.store.hold("exchange_messages")
        asked_for = [asyncio.create_task(reports.of(USER, log.exchange_id)) for _ in range(10)]
        await eventually(lambda: own.store.waiting.count("exchange_messages") == 2)
        with pytest.raises(RateLimited):
            await reports.of(USER, log.exchange_id)
        assert own.store.waiting.count("exchange_messages") == 2
        released.set()
        assert {found.exchange_id for found in await asyncio.gather(*asked_for)} == {log.exchange_id}
