"""An interrupted exchange goes on as a new one, from its last checkpoint; no tool that had ended runs again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from support.chat_client import check_calls, check_exchange, final_text
from support.driven_run import ReadingModel
from support.failing_store import FailingStore
from support.held_agents import Hold
from support.hostile_modules import entry, specs
from support.recorded_agents import entry_of, eventually
from support.sessions import USER, Sessions, events_of, open_sessions, until
from support.turn_model import Turn, call

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.auth.user import User
from agentic_backend.errors import CheckpointMissing, ExchangeNotFound, SessionCompleted, StoreUnavailable
from agentic_backend.protocol.events import Final
from agentic_backend.protocol.messages import Channel, ExchangeStatus, utc_now
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.stores.base import Checkpoint
from agentic_backend.stores.protocol.trail import AuditRecord, TrailQuery
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord
from agentic_backend.stores.sqlite import SqliteStore


class Workshop:
    """An agent that makes one thing, then another one, which may take long, and says so."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.hold = Hold()

    def entry(self, agent_id: str = "maker", *, auto_resume: bool = False) -> CatalogAgent:
        @tool
        async def make(thing: str) -> str:
            """Make a thing."""
            self.made.append(thing)
            if thing == "table":
                await self.hold.wait()
            return f"made a {thing}"

        turns = [
            Turn("First a chair.", calls=[call("make", "c1", thing="chair")]),
            Turn("Then a table.", calls=[call("make", "c2", thing="table")]),
            Turn("All is made."),
            Turn("You are welcome."),
        ]
        return entry_of(create_agent(ReadingModel(turns=turns), [make]), agent_id, auto_resume=auto_resume)


async def busy(workshop: Workshop) -> None:
    """Once the table is being made."""
    async with asyncio.timeout(10):
        while not workshop.hold.held:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def interrupted(directory: Path, entry: CatalogAgent, workshop: Workshop) -> AsyncIterator[ExchangeLog]:
    """An exchange as a process leaves it that is killed while the table is being made."""
    async with open_sessions(directory, {entry.settings.id: entry}) as dying:
        log = await dying.begin("Furnish the room")
        await busy(workshop)
        # The tool may be at work before its call is stored.
        await eventually(lambda: [message.channel for message in log.messages].count(Channel.TOOL_CALL) == 2)
        yield log


async def resume(sessions: Sessions, exchange_id: str, user: User = USER) -> ExchangeLog:
    return await sessions.orchestrator.resume(user, exchange_id, None, "resuming")


async def test_it_goes_on_behind_the_last_tool_that_has_ended(tmp_path: Path) -> None:
    workshop = Workshop()
    async with interrupted(tmp_path, workshop.entry(), workshop) as log:
        assert workshop.made == ["chair", "table"]
        again = Workshop()
        again.hold.released.set()
        async with open_sessions(tmp_path, {"maker": again.entry()}) as sessions:
            left = await sessions.record(log.exchange_id)
            assert left.status is ExchangeStatus.INTERRUPTED and left.checkpoint is not None
            assert (left.checkpoint.kind, left.checkpoint.tool) == (CheckpointKind.TOOL_CALL, "make")
            events = await events_of(await resume(sessions, log.exchange_id))
            check_exchange(events)
            assert again.made == ["table"]
            assert final_text(events) == "All is made."
            assert events[0]["resumes"] == log.exchange_id
            opening = events[1]["message"]
            assert opening["parts"] == [{"type": "text", "text": "Furnish the room"}]
            assert opening["metadata"]["extras"] == {"resumes": log.exchange_id}
            check_calls(await sessions.stored(log.session_id))
            assert (await sessions.record(events[0]["exchange_id"])).resumes == log.exchange_id
            thanks = await sessions.ask("Thank you", session_id=log.session_id)
            check_exchange(thanks)
            with pytest.raises(CheckpointMissing):
                await resume(sessions, log.exchange_id)


async def test_the_trust_summary_of_a_resumed_exchange_has_the_tools_of_the_interrupted_one(tmp_path: Path) -> None:
    workshop, again = Workshop(), Workshop()
    again.hold.released.set()
    async with (
        interrupted(tmp_path, workshop.entry(), workshop) as log,
        open_sessions(tmp_path, {"maker": again.entry()}) as sessions,
    ):
        events = await events_of(await resume(sessions, log.exchange_id))
        found = await TrustReports(sessions.store.real).of(USER, events[0]["exchange_id"])
        assert [(tool.id, tool.call_id, tool.outcome, tool.approval) for tool in found.tools] == [
            ("t1", "c1", "ok", "not_required"),
            ("t2", "c2", "cancelled", "not_recorded"),
            ("t3", "c2", "ok", "not_required"),
        ]


async def test_a_resumed_exchange_has_its_modules(tmp_path: Path) -> None:
    """They look at what the agent says from then on, and not again at the message that they have let pass."""
    workshop, again = Workshop(), Workshop()
    again.hold.released.set()
    settings = {"before": "redact", "after": "redact", "word": "made"}
    modules = specs(tmp_path, entry(settings=settings, hold_output=True))
    async with (
        interrupted(tmp_path, workshop.entry(), workshop) as log,
        open_sessions(tmp_path, {"maker": again.entry()}, modules=modules) as sessions,
    ):
        events = await events_of(await resume(sessions, log.exchange_id))
        check_exchange(events)
        assert final_text(events) == "All is ***."
        audits = (await sessions.store.real.trail(TrailQuery(AuditRecord))).records
        assert [(audit.original, audit.exchange_id) for audit in audits] == [("All is made.", events[0]["exchange_id"])]


async def test_a_resumed_exchange_that_is_interrupted_at_once_can_be_resumed_too(tmp_path: Path) -> None:
    workshop, second, third = Workshop(), Workshop(), Workshop()
    third.hold.released.set()
    async with (
        interrupted(tmp_path, workshop.entry(), workshop) as log,
        open_sessions(tmp_path, {"maker": second.entry()}) as sessions,
    ):
        resumed = await resume(sessions, log.exchange_id)
        await busy(second)
        async with open_sessions(tmp_path, {"maker": third.entry()}) as sessions:
            record = await sessions.record(resumed.exchange_id)
            assert record.checkpoint is not None and record.checkpoint.exchange_id == resumed.exchange_id
            events = await events_of(await resume(sessions, resumed.exchange_id))
            assert final_text(events) == "All is made." and third.made == ["table"]


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_what_gets_lost_when_it_is_resumed_leaves_it_to_be_resumed_or_resumes_it(
    tmp_path: Path, lost: str
) -> None:
    workshop, again = Workshop(), Workshop()
    again.hold.released.set()
    async with (
        interrupted(tmp_path, workshop.entry(), workshop) as log,
        open_sessions(tmp_path, {"maker": again.entry()}) as sessions,
    ):
        if lost == "answer":
            sessions.store.lose_next_answer("begin_exchange")
        else:
            sessions.store.lose_next_request("begin_exchange")
            with pytest.raises(StoreUnavailable):
                await resume(sessions, log.exchange_id)
        events = await events_of(await resume(sessions, log.exchange_id))
        check_exchange(events)
        assert final_text(events) == "All is made." and again.made == ["table"]


async def test_without_a_checkpoint_there_is_nothing_to_resume_from(tmp_path: Path) -> None:
    workshop = Workshop()
    workshop.hold.released.set()
    async with open_sessions(tmp_path, {"maker": workshop.entry()}) as sessions:
        events = await sessions.ask("Furnish the room")
        with pytest.raises(CheckpointMissing):
            await resume(sessions, events[0]["exchange_id"])
        with pytest.raises(ExchangeNotFound):
            await resume(sessions, "no such exchange")


async def test_the_next_ask_gives_up_what_could_have_gone_on(tmp_path: Path) -> None:
    workshop = Workshop()
    async with interrupted(tmp_path, workshop.entry(), workshop) as log:
        again = Workshop()
        again.hold.released.set()
        async with open_sessions(tmp_path, {"maker": again.entry()}) as sessions:
            await sessions.ask("Never mind", session_id=log.session_id)
            with pytest.raises(CheckpointMissing):
                await resume(sessions, log.exchange_id)


async def test_of_many_who_resume_at_once_one_does(tmp_path: Path) -> None:
    workshop = Workshop()
    async with interrupted(tmp_path, workshop.entry(), workshop) as log:
        again = Workshop()
        again.hold.released.set()
        async with open_sessions(tmp_path, {"maker": again.entry()}) as sessions:
            at_once = [resume(sessions, log.exchange_id) for _ in range(10)]
            outcomes = await asyncio.gather(*at_once, return_exceptions=True)
            [resumed] = [outcome for outcome in outcomes if isinstance(outcome, ExchangeLog)]
            assert final_text(await events_of(resumed)) == "All is made."
            assert again.made == ["table"]


async def test_only_its_user_may_resume_it(tmp_path: Path) -> None:
    workshop = Workshop()
    async with (
        interrupted(tmp_path, workshop.entry(), workshop) as log,
        open_sessions(tmp_path, {"maker": Workshop().entry()}) as sessions,
    ):
        with pytest.raises(ExchangeNotFound):
            await resume(sessions, log.exchange_id, User(id="mallory", name="Mallory"))


async def test_a_replay_safe_agent_goes_on_by_itself(tmp_path: Path) -> None:
    workshop, again = Workshop(), Workshop()
    async with interrupted(tmp_path, workshop.entry(auto_resume=True), workshop) as log:
        async with open_sessions(tmp_path, {"maker": again.entry(auto_resume=True)}) as sessions:
            _, resumed = await sessions.orchestrator.running_in(USER, log.session_id or "")
            assert resumed is not None
            started = await until(resumed, "started")
            assert started["resumes"] == log.exchange_id
            again.hold.released.set()
            assert final_text(await events_of(resumed)) == "All is made."
            assert again.made == ["table"]


async def test_what_takes_its_server_down_each_time_is_not_resumed_for_ever(tmp_path: Path) -> None:
    workshop = Workshop()
    async with interrupted(tmp_path, workshop.entry(auto_resume=True), workshop) as log, AsyncExitStack() as dead:
        resumed = 0
        for _ in range(6):
            crashing = Workshop()
            # Each ends what the one before left, which never gets to end it itself.
            opened = open_sessions(tmp_path, {"maker": crashing.entry(auto_resume=True)})
            sessions = await dead.enter_async_context(opened)
            if (await sessions.session(log.session_id)).active_exchange_id is None:
                break
            await busy(crashing)
            resumed += 1
        assert resumed == 3


async def test_a_server_that_is_told_to_stop_leaves_what_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops between two nodes, or in the middle of a tool, which then runs again."""
    workshop, again = Workshop(), Workshop()
    again.hold.released.set()
    async with open_sessions(tmp_path, {"maker": workshop.entry()}, grace_s=0.1) as sessions:
        log = await sessions.begin("Furnish the room")
        await busy(workshop)
        running, drained = sessions.relay.running(log.exchange_id), asyncio.Event()
        assert running is not None
        drain = running.drain

        def noted_drain() -> None:
            drain()
            drained.set()

        monkeypatch.setattr(running, "drain", noted_drain)
        closing = asyncio.create_task(sessions.relay.aclose())
        await drained.wait()
        workshop.hold.released.set()
        await closing
        final = (await events_of(log))[-1]
        assert (final["status"], final["resumable"]) == ("interrupted", True)
    async with open_sessions(tmp_path, {"maker": again.entry()}) as sessions:
        left = await sessions.record(log.exchange_id)
        assert left.checkpoint is not None and left.checkpoint.kind is CheckpointKind.DRAINED
        events = await events_of(await resume(sessions, log.exchange_id))
        check_exchange(events)
        assert final_text(events) == "All is made." and again.made == []


async def test_each_boundary_leaves_its_checkpoint(tmp_path: Path) -> None:
    records: list[CheckpointRecord] = []

    class Noting(FailingStore):
        async def append(self, *args: Any, **kwargs: Any) -> Any:
            records.extend(one.record for one in args if isinstance(one, Checkpoint))
            return await self.real.append(*args, **kwargs)

    def boundaries() -> list[tuple[CheckpointKind, str | None]]:
        return [(record.kind, record.tool) for record in records]

    workshop = Workshop()
    database = Noting(await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5)).as_store
    async with open_sessions(tmp_path, {"maker": workshop.entry()}, database=database) as sessions:
        log = await sessions.begin("Furnish the room")
        await busy(workshop)
        # What is stored together has one checkpoint, that of its last boundary.
        await eventually(lambda: boundaries()[-1:] == [(CheckpointKind.TOOL_CALL, "make")])
        workshop.hold.released.set()
        await events_of(log)
        assert boundaries()[-2:] == [(CheckpointKind.TOOL_COMPLETION, "make"), (CheckpointKind.FINAL_RESULT, None)]
        assert records[-1].partial_output is None, "its text is stored once, as the final"


async def test_a_final_says_that_it_can_be_resumed_only_as_long_as_that_is_so(tmp_path: Path) -> None:
    workshop = Workshop()
    async with (
        interrupted(tmp_path, workshop.entry(), workshop) as log,
        open_sessions(tmp_path, {"maker": workshop.entry()}) as sessions,
    ):
        final = await sessions.stored_final(log.exchange_id)
        assert final.resumable is True
        # As where it has ended on an instance that lives on.
        kept = sessions.relay.mirror(log.session_id or "", log.exchange_id, USER.id)
        kept.end_with(final)
        reader = kept.follow(0, lambda: None)
        with sessions.store.away():
            assert await sessions.orchestrator.view(USER, log.exchange_id) is kept, "it is shown as it is"
        workshop.hold.released.set()
        await sessions.ask("Thank you", session_id=log.session_id)
        viewed = await sessions.orchestrator.view(USER, log.exchange_id)
        assert viewed is kept and viewed.final is not None
        assert viewed.final.resumable is False
        assert [event.resumable for event in reader.take() if isinstance(event, Final)] == [False]
        kept.unfollow(reader)


async def test_nothing_of_a_completed_session_can_be_resumed(tmp_path: Path) -> None:
    workshop = Workshop()
    async with (
        interrupted(tmp_path, workshop.entry(), workshop) as log,
        open_sessions(tmp_path, {"maker": workshop.entry()}) as sessions,
    ):
        await sessions.store.complete_session(log.session_id or "", utc_now())
        assert (await sessions.stored_final(log.exchange_id)).resumable is False
        with pytest.raises(SessionCompleted):
            await resume(sessions, log.exchange_id)
