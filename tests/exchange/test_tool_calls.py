"""The records of tool calls: one a call, written with its messages, whoever ends the exchange and however."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.graph import START, MessagesState, StateGraph
from support.held_agents import Hold
from support.recorded_agents import entry_of, eventually
from support.session_fixtures import Serve
from support.sessions import USER, Sessions, until
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.exchange.end.orphan_closing import OrphanClosing
from agentic_backend.exchange.lifecycle import INTERRUPTED
from agentic_backend.exchange.write.tool_calls import LONGEST, ToolCalls
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.frames import Decision, HumanDecisions
from agentic_backend.protocol.messages import Channel, Role, utc_now
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.stores.records import ExchangeRecord, MessageDraft


async def double(number: int) -> str:
    """Double a number."""
    return str(2 * number)


async def fail(why: str) -> str:
    """Fail."""
    raise ToolException(why)


def tool(function: Any) -> StructuredTool:
    return StructuredTool.from_function(coroutine=function, handle_tool_error=True)


def calling(*turns: Turn, tools: Sequence[Any] = (double, fail)) -> CompiledGraph:
    return create_agent(TurnModel(turns=list(turns)), tools=[tool(each) for each in tools])


class Careful(AgentFlow):
    async def async_init(self) -> None:
        calls = [call("double", "c1", number=1), call("double", "c2", number=2), call("double", "c3", number=3)]
        model = TurnModel(turns=[Turn(calls=calls), Turn("done")])
        self._graph = create_agent(model, tools=[tool(double)], middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


async def calls_of(sessions: Sessions, **where: str) -> list[ToolCallRecord]:
    """The stored records, the first call first."""
    page = await sessions.store.real.trail(TrailQuery(ToolCallRecord, where))
    return sorted(page.records, key=lambda record: record.id)


async def test_a_call_and_its_result_are_one_record(serve: Serve) -> None:
    graph = calling(Turn(calls=[call("double", "c1", number=4), call("fail", "c2", why="It rains.")]), Turn("done"))
    async with serve({"agent": graph}) as own:
        log = await own.begin("go")
        await log.wait_ended()
        doubled, failed = await calls_of(own, session_id=log.session_id or "")
        assert (doubled.name, doubled.args, doubled.state, doubled.result) == ("double", {"number": 4}, "success", "8")
        assert doubled.duration_ms is not None
        assert doubled.completed_at is not None and doubled.completed_at >= doubled.at
        assert (doubled.user_id, doubled.agent_id, doubled.exchange_id) == (USER.id, "agent", log.exchange_id)
        assert (failed.state, failed.result, failed.error) == ("error", None, "It rains.")
        assert doubled.approved_by is failed.approved_by is None


def holding(hold: Hold) -> CompiledGraph:
    async def work() -> str:
        """Work."""
        await hold.wait()
        return "worked"

    return calling(Turn(calls=[call("work", "c1")]), Turn("done"), tools=[work])


async def begun_work(sessions: Sessions, hold: Hold) -> ExchangeLog:
    """An exchange whose tool runs."""
    log = await sessions.begin("go")
    await eventually(lambda: hold.held and Channel.TOOL_CALL in [message.channel for message in log.messages])
    return log


async def test_a_call_that_is_stopped_is_closed(serve: Serve, hold: Hold) -> None:
    async with serve({"working": holding(hold)}) as own:
        log = await begun_work(own, hold)
        [pending] = await calls_of(own, session_id=log.session_id or "")
        assert (pending.state, pending.completed_at) == ("pending", None)
        await own.orchestrator.stop(USER, log.session_id, None)
        await log.wait_ended()
        [closed] = await calls_of(own, session_id=log.session_id or "")
        assert (closed.id, closed.state) == (pending.id, "error")
        assert closed.completed_at is not None


async def test_who_has_approved_or_rejected_is_recorded(serve: Serve) -> None:
    entry = entry_of(Careful, "careful", require_approval=["double"])
    async with serve({"careful": entry}) as own:
        log = await own.begin("go")
        requests = (await until(log, "awaiting_human"))["payload"]["requests"]
        decisions = [
            Decision(call_id=request["call_id"], args_sha256=request["args_sha256"], action=action)
            for request, action in zip(requests, ("approve", "reject", "approve"), strict=True)
        ]
        log = await own.orchestrator.human_resume(
            USER, log.session_id, log.exchange_id, HumanDecisions(decisions=decisions), None
        )
        await log.wait_ended()
        records = await calls_of(own, session_id=log.session_id or "")
        assert [(one.call_id, one.state, one.approved_by) for one in records] == [
            ("c1", "success", USER.id),
            ("c2", "rejected", None),
            ("c3", "success", USER.id),
        ]


async def test_a_query_records_nothing(serve: Serve) -> None:
    graph = calling(Turn(calls=[call("double", "c1", number=4)]), Turn("done"))
    async with serve({"agent": graph}) as own:
        assert (await own.ask("go", mode="query"))[-1]["status"] == "ok"
        assert await calls_of(own, user_id=USER.id) == []


async def test_an_outage_neither_loses_nor_doubles_a_record(serve: Serve) -> None:
    turns = [Turn(calls=[call("double", f"c{number}", number=number)]) for number in range(5)]
    async with serve({"agent": calling(*turns, Turn("done"))}) as own:
        own.store.lose_next_answer("append")
        own.store.lose_next_request("append")
        log = await own.begin("go")
        await log.wait_ended()
        records = await calls_of(own, session_id=log.session_id or "")
        assert [(one.call_id, one.state, one.result) for one in records] == [
            (f"c{number}", "success", str(2 * number)) for number in range(5)
        ]


async def test_a_graph_of_any_kind_is_recorded(serve: Serve) -> None:

    def answer(state: MessagesState) -> dict[str, Any]:
        calls = AIMessage("", tool_calls=[call("double", "c1", number=2)])
        return {"messages": [calls, ToolMessage("4", tool_call_id="c1"), AIMessage("four")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
    async with serve({"agent": graph}) as own:
        log = await own.begin("go")
        await log.wait_ended()
        [record] = await calls_of(own, session_id=log.session_id or "")
        assert (record.name, record.state, record.result) == ("double", "success", "4")


async def test_a_call_that_a_crash_has_left_is_closed_by_whoever_ends_the_exchange(serve: Serve, hold: Hold) -> None:
    async with serve({"working": holding(hold)}) as own:
        log = await begun_work(own, hold)
        record = await own.record(log.exchange_id)
        closing = OrphanClosing(own.store.real, own.relay, Kpi(), lambda *_: None)
        await closing.close(record, INTERRUPTED)
        [closed] = await calls_of(own, session_id=log.session_id or "")
        assert (closed.id, closed.state, closed.name) == (f"{log.exchange_id}.1", "error", "work")
        assert closed.error is not None and "went away" in closed.error
        hold.released.set()
        await log.wait_ended()


def exchange() -> ExchangeRecord:
    return ExchangeRecord(id="e", session_id="s", user_id="u", agent_id="a", request_id="r", started_at=utc_now())


def message(*parts: Any) -> MessageDraft:
    is_call = isinstance(parts[0], ToolCallPart)
    role, channel = (Role.ASSISTANT, Channel.TOOL_CALL) if is_call else (Role.TOOL, Channel.TOOL_RESULT)
    return MessageDraft(role=role, channel=channel, parts=list(parts))


def test_a_call_id_that_a_model_uses_again_is_another_record() -> None:
    messages = [
        message(ToolCallPart(call_id="c", name="first", args={})),
        message(ToolResultPart(call_id="c", ok=True, content="1")),
        message(ToolCallPart(call_id="c", name="second", args={})),
        message(ToolResultPart(call_id="c", ok=True, content="2")),
    ]
    records = {one.id: one for one in ToolCalls(exchange(), (), utc_now).add(messages)}
    assert [(one.id, one.name, one.result) for one in records.values()] == [
        ("e.1", "first", "1"),
        ("e.2", "second", "2"),
    ]


@pytest.mark.parametrize("length", [LONGEST + 1, 10 * LONGEST])
def test_long_arguments_and_results_are_cut(length: int) -> None:
    messages = [
        message(ToolCallPart(call_id="c", name="tool", args={"text": "x" * length})),
        message(ToolResultPart(call_id="c", ok=True, content="y" * length)),
    ]
    _, record = ToolCalls(exchange(), (), utc_now).add(messages)
    assert len(record.args["cut"]) < LONGEST + 100
    assert record.result is not None and len(record.result) < LONGEST + 100
