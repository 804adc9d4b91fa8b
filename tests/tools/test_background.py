"""Tools in the background: acknowledged at once, owned, bounded, and reported to the session when done."""

import asyncio
import json
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, ToolException, tool
from support.held_agents import Hold
from support.recorded_agents import entry_of, eventually
from support.session_fixtures import Serve
from support.sessions import PATIENCE_S, USER, Sessions
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.background import background
from agentic_backend.agents.permissions import needs
from agentic_backend.agents.runtime_context import current_context
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.protocol.messages import Session
from agentic_backend.protocol.parts import ToolResultPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.protocol.trail import PromptRecord, ToolCallRecord, TrailQuery
from agentic_backend.stores.tables import TOOL_CALLS


class Hidden(ToolException):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not today")

    def __str__(self) -> str:
        raise RuntimeError("not today")


def agent(hold: Hold, *turns: Turn) -> CatalogAgent:
    """Its tool `work` is held, then says for whom it has worked, or fails."""

    def build(model: BaseChatModel, tools: list[BaseTool]) -> CompiledGraph:
        @needs("work:start:self")
        @background
        @tool
        async def work(what: str) -> str:
            """Work."""
            await hold.wait()
            if what == "fail":
                raise ToolException("It did not work.")
            if what == "hide":
                raise Hidden
            return f"{what} for {current_context().user_id}"

        return create_agent(TurnModel(turns=list(turns)), tools=[work, *tools])

    return entry_of(build, "agent", tools=["background_result"])


def works(*what: str) -> Turn:
    return Turn(calls=[call("work", f"c{number}", what=each) for number, each in enumerate(what)])


async def records(sessions: Sessions, log: ExchangeLog) -> list[ToolCallRecord]:
    page = await sessions.store.real.trail(TrailQuery(ToolCallRecord, {"exchange_id": log.exchange_id}))
    return sorted(page.records, key=lambda record: record.id)


async def ended(sessions: Sessions, message: str = "go", **ask: Any) -> ExchangeLog:
    log = await sessions.begin(message, **ask)
    await log.wait_ended()
    assert log.final is not None and log.final.status == "ok", log.final
    return log


async def settled(sessions: Sessions, log: ExchangeLog) -> list[ToolCallRecord]:
    """The records, once none is pending."""
    async with asyncio.timeout(PATIENCE_S):
        while "pending" in [record.state for record in await records(sessions, log)]:
            await asyncio.sleep(0.01)
    return await records(sessions, log)


def results(log: ExchangeLog) -> list[ToolResultPart]:
    return [part for message in log.messages for part in message.parts if isinstance(part, ToolResultPart)]


async def reports(sessions: Sessions, log: ExchangeLog) -> list[str]:
    """What the exchange's prompt says of tools in the background."""
    page = await sessions.store.real.trail(TrailQuery(PromptRecord, {"exchange_id": log.exchange_id}))
    return [one.text for record in page.records for one in record.sections if "background" in one.source]


class Told:
    """Watches a session."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []

    def exchange_started(self, log: ExchangeLog) -> None:
        pass

    def session_changed(self, session: Session) -> None:
        self.sessions.append(session)


async def test_the_exchange_ends_and_the_work_goes_on_until_its_result_is_recorded(serve: Serve, hold: Hold) -> None:
    lookup = Turn(calls=[call("background_result", "r1", id="?")])
    async with serve({"agent": agent(hold, works("dig", "fail"), Turn("started"), lookup, Turn("done"))}) as sessions:
        log = await ended(sessions)
        dug, failed = await records(sessions, log)
        assert (dug.state, failed.state) == ("pending", "pending")
        assert [part.content.split(".")[0] for part in results(log)] == [
            f"Started in the background as {log.exchange_id}" for _ in range(2)
        ]
        told = Told()
        sessions.relay.session_subscriptions.add(log.session_id or "", told, exchanges_too=False)
        hold.released.set()
        dug, failed = await settled(sessions, log)
        await eventually(lambda: told.sessions)
        assert (dug.state, dug.result, failed.state, failed.error) == (
            "success",
            f"dig for {USER.id}",
            "error",
            "It did not work.",
        )
        assert dug.completed_at is not None and dug.duration_ms is not None


async def test_work_that_raises_what_cant_be_looked_at_has_failed(serve: Serve, hold: Hold) -> None:
    async with serve({"agent": agent(hold, works("hide"), Turn("started"))}) as sessions:
        log = await ended(sessions)
        hold.released.set()
        [failed] = await settled(sessions, log)
    assert (failed.state, failed.error) == ("error", "The tool failed.")


async def test_the_result_is_there_for_a_later_exchange(serve: Serve, hold: Hold) -> None:
    class Looks(TurnModel):
        """Looks up the id that the first exchange was given."""

        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            given = next((one.text for one in messages if one.type == "tool"), "")
            if "Started" in given and messages[-1].type == "human":
                work_id = given.split(" as ")[1].split(". ")[0]
                self.turns[self._said] = Turn(calls=[call("background_result", "r1", id=work_id)])
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk

    def build(model: BaseChatModel, tools: list[BaseTool]) -> CompiledGraph:
        @background
        @tool
        async def work() -> str:
            """Work."""
            await hold.wait()
            return "dug"

        turns = [Turn(calls=[call("work", "c1")]), Turn("started"), *(Turn("?"), Turn("done")) * 4]
        return create_agent(Looks(turns=turns), tools=[work, *tools])

    async with serve({"agent": entry_of(build, "agent", tools=["background_result"])}) as sessions:
        log = await ended(sessions)
        pending = await ended(sessions, session_id=log.session_id)
        assert json.loads(results(pending)[0].content) == {"state": "pending"}
        hold.released.set()
        await settled(sessions, log)
        done = await ended(sessions, session_id=log.session_id)
        assert json.loads(results(done)[0].content) == {"state": "success", "result": "dug", "error": None}
        [told] = await reports(sessions, done)
        assert "has ended (success)" in told and "dug" not in told
        assert await reports(sessions, await ended(sessions, session_id=log.session_id)) == []
        # A branch that takes the place of the exchange that was told of it is told of it too, once.
        asked_at = done.messages[0].rank
        branch = await sessions.branches.fork(USER, log.session_id or "", asked_at)
        again = await ended(sessions, session_id=branch.id)
        assert await reports(sessions, again) == [told]
        assert json.loads(results(again)[0].content)["result"] == "dug"
        assert await reports(sessions, await ended(sessions, session_id=branch.id)) == []
        before = await sessions.branches.fork(USER, log.session_id or "", 0)
        assert await reports(sessions, await ended(sessions, session_id=before.id)) == []


async def test_what_runs_for_a_user_is_bounded(serve: Serve, hold: Hold) -> None:
    limits = LimitsSettings(background_per_user=2)
    turns = works("a", "b", "c"), Turn("done")
    async with serve({"agent": agent(hold, *turns)}, limits=limits) as sessions:
        log = await ended(sessions)
        assert [record.state for record in await records(sessions, log)] == ["pending", "pending", "error"]
        hold.released.set()


async def test_what_takes_too_long_is_cut(serve: Serve, hold: Hold) -> None:
    limits = LimitsSettings(background_timeout_s=0.05)
    async with serve({"agent": agent(hold, works("dig"), Turn("done"))}, limits=limits) as sessions:
        log = await ended(sessions)
        [cut] = await settled(sessions, log)
        assert (cut.state, cut.error) == ("error", "The tool took longer than 0.05 seconds.")


async def test_a_server_that_stops_closes_what_runs(serve: Serve, hold: Hold) -> None:
    async with serve({"agent": agent(hold, works("dig"), Turn("done"))}) as sessions:
        log = await ended(sessions)
        await eventually(lambda: hold.held)
        await sessions.background.aclose()
        [cut] = await records(sessions, log)
        assert (cut.state, cut.error) == ("error", "The server stopped before the tool gave a result.")


async def test_the_user_s_permissions_count(serve: Serve, hold: Hold) -> None:
    nobody = PermissionsSettings(roles={"worker": ("work:start:self",)})
    async with serve({"agent": agent(hold, works("dig"), Turn("done"))}, permissions=nobody) as sessions:
        log = await ended(sessions)
        assert [record.state for record in await records(sessions, log)] == ["forbidden"]
        assert hold.held == 0


async def test_in_a_query_the_tool_runs_at_once(serve: Serve, hold: Hold) -> None:
    hold.released.set()
    async with serve({"agent": agent(hold, works("dig"), Turn("done"))}) as sessions:
        log = await ended(sessions, mode="query")
        assert [part.content for part in results(log)] == [f"dig for {USER.id}"]


async def test_with_a_user_s_data_goes_what_works_for_them_and_nothing_for_others(serve: Serve, hold: Hold) -> None:
    other = User(id="bob", name="Bob")
    async with serve({"agent": agent(hold, works("dig"), Turn("started"), works("dig"), Turn("started"))}) as sessions:
        await ended(sessions)
        theirs = await ended(sessions, user=other)
        assert hold.held == 2
        await sessions.user_deletions.delete(USER.id)
        await eventually(lambda: hold.held == 1)
        assert await sessions.store.real.page(TOOL_CALLS, None, 10, user_id=USER.id) == []
        hold.released.set()
        [dug] = await settled(sessions, theirs)
        assert dug.state == "success"
