"""Maintenance: what runs stays its owner's, the text that is being written is kept, and what others left is ended."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.held_agents import Hold, held_graph
from support.outages import words_are_kept
from support.recorded_agents import eventually, metric
from support.sessions import PATIENCE_S, USER, events_of, open_sessions, until

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.upkeep import maintenance
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.records import ExchangeRecord, MessageDraft
from agentic_backend.stores.rows import rfc3339

LEASE_S = 0.9
LOOKS = {"running_exchanges", "beats", "running_among"}


async def test_what_runs_stays_its_owners_through_an_outage_longer_than_a_lease(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, lease_s=LEASE_S) as sessions:
        log = await sessions.begin("hello")
        for is_away in (False, True, False):
            with sessions.store.away() if is_away else contextlib.nullcontext():
                await asyncio.sleep(2 * LEASE_S)
                if is_away:
                    await eventually(lambda: LOOKS & set(sessions.store.refused))
        hold.released.set()
        assert (await events_of(log))[-1]["status"] == "ok"
        assert (await sessions.record(log.exchange_id)).status is ExchangeStatus.OK


async def test_the_text_that_is_being_written_is_kept(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        log = await sessions.begin("hello")
        await words_are_kept(sessions, log.exchange_id)
        hold.released.set()
        await events_of(log)
        await sessions.idle(log.session_id)
        assert (await sessions.record(log.exchange_id)).partial == []


async def test_what_another_instance_left_is_ended_and_its_followers_see_it(tmp_path: Path) -> None:
    hold = Hold()
    agents = {"held": held_graph(hold)}
    async with open_sessions(tmp_path, agents, lease_s=60) as dying:
        log = await dying.begin("hello")
        record = await words_are_kept(dying, log.exchange_id)
        assert record.owner is not None
        # As a process leaves it that is killed: an exchange that runs, for an instance that gives no sign of life.
        async with open_sessions(tmp_path, agents, lease_s=LEASE_S, alone=False) as other:
            _, seen = await other.orchestrator.running_in(USER, log.session_id or "")
            assert seen is not None
            cursor = seen.follow(0, lambda: None)
            events = await events_of(seen)
            seen.unfollow(cursor)
            assert [event["type"] for event in events] == ["reset", "final"]
            assert events[-1]["status"] == "interrupted"
            texts = [part["text"] for message in events[-1]["messages"] for part in message["parts"]]
            assert texts[:2] == ["hello", "one two "]
            record = await other.record(log.exchange_id)
            assert (record.status, record.owner, record.partial) == (ExchangeStatus.INTERRUPTED, None, [])
            stored = await other.stored(log.session_id)
            assert stored == events[-1]["messages"]
            # It was not dead: now it wakes up, and writes nothing.
            hold.released.set()
            assert (await events_of(log))[-1]["status"] == "interrupted"
            assert await other.stored(log.session_id) == stored


async def test_who_follows_what_is_deleted_elsewhere_sees_it_end(tmp_path: Path) -> None:
    """Nothing is stored of it that could tell them, whether it ran here or at another instance."""
    agents = {"held": held_graph(Hold())}
    async with open_sessions(tmp_path, agents, lease_s=LEASE_S) as owner:
        log = await owner.begin("hello")
        await until(log, "delta")
        # With a long lease, or it might end the exchange before the session is deleted.
        async with open_sessions(tmp_path, agents, alone=False) as other:
            _, seen = await other.orchestrator.running_in(USER, log.session_id or "")
            assert seen is not None and seen is not log
            cursor = seen.follow(0, lambda: None)
            await owner.store.real.delete_session(log.session_id or "")
            for followed in (seen, log):
                error, final = (await events_of(followed))[-2:]
                assert (error["type"], error["code"]) == ("error", "interrupted")
                assert (final["type"], final["status"]) == ("final", "interrupted")
            seen.unfollow(cursor)


async def test_an_exchange_that_the_store_began_unheard_is_ended_by_itself(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"held": held_graph(Hold())}, lease_s=LEASE_S) as sessions:
        session = await sessions.service.open(USER, None, None, "default")
        sessions.store.lose_next_answer("begin_exchange")
        try:
            await sessions.begin("hello", session_id=session.id)
        except StoreUnavailable:
            assert (await sessions.session(session.id)).active_exchange_id is not None
        await sessions.idle(session.id)


async def test_maintenance_goes_on_after_an_outage(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, lease_s=LEASE_S) as sessions:
        log = await sessions.begin("hello")
        with sessions.store.away("running_among", "keep_partials", "running_exchanges", "expired_exchanges"):
            await asyncio.sleep(2 * LEASE_S)
        await words_are_kept(sessions, log.exchange_id)
        hold.released.set()
        assert (await events_of(log))[-1]["status"] == "ok"


async def test_maintenance_ends_though_a_driver_swallows_that_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = asyncio.Event()

    async def swallow(**but: object) -> list[ExchangeRecord]:
        looking.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return []

    async with asyncio.timeout(30), open_sessions(tmp_path, {}, lease_s=LEASE_S) as sessions:
        monkeypatch.setattr(sessions.store, "running_exchanges", swallow, raising=False)
        await looking.wait()


async def test_who_was_taken_for_dead_gives_up_what_it_was_running(tmp_path: Path) -> None:
    """Though its graph says nothing that would be stored, and so be refused."""
    hold = Hold()
    agents = {"held": held_graph(hold)}
    async with open_sessions(tmp_path, agents, lease_s=LEASE_S) as slow:
        log = await slow.begin("hello")
        await until(log, "delta")
        with slow.store.away("running_among"):
            async with open_sessions(tmp_path, agents, alone=False, lease_s=LEASE_S) as other:
                await other.idle(log.session_id)
        ended = await events_of(log)
        assert ended[-1]["status"] == "interrupted" and not hold.released.is_set()


async def test_what_an_earlier_version_runs_is_its_own_while_it_moves_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever time it writes there: by any clock it may be long over, or far ahead."""
    path, long_over = tmp_path / "chat.sqlite3", datetime(2001, 1, 1, tzinfo=UTC)

    def renew(minute: int) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE exchanges SET deadline = ?", [rfc3339(long_over + timedelta(minutes=minute))])

    async with open_sessions(tmp_path, {"held": held_graph(Hold())}, lease_s=LEASE_S, alone=False) as sessions:
        session = await sessions.service.open(USER, None, None, "default")
        exchange = ExchangeRecord(
            id="e",
            session_id=session.id,
            user_id=USER.id,
            agent_id="held",
            request_id="r",
            started_at=utc_now(),
            owner="an earlier one",
            deadline=long_over,
        )
        opening = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text="hello")])
        await sessions.store.real.begin_exchange(exchange, opening)
        look, looks, lives = sessions.store.running_exchanges, 0, True

        async def look_at_what_moves(**but: object) -> list[ExchangeRecord]:
            """Before each look, so that a slow disk can't keep it from moving for a lease."""
            nonlocal looks
            if lives:
                await asyncio.to_thread(renew, looks)
            looks += 1
            records: list[ExchangeRecord] = await look(**but)
            return records

        monkeypatch.setattr(sessions.store, "running_exchanges", look_at_what_moves, raising=False)
        # A look comes three times in a lease.
        await eventually(lambda: looks > 9)
        assert (await sessions.record("e")).status is ExchangeStatus.RUNNING
        lives = False
        await sessions.idle(session.id)
        assert (await sessions.record("e")).status is ExchangeStatus.INTERRUPTED


@pytest.mark.mongodb
async def test_what_a_dead_instance_ran_is_ended_and_then_it_is_forgotten(tmp_path: Path, mongodb_url: str) -> None:
    """One whose counter moves keeps what it runs."""
    # Many beats in a lease, for some of them may be late.
    lease_s = 3 * LEASE_S
    store = await MongoStore.open(mongodb_url, timeout_s=10)
    agents = {"held": held_graph(Hold())}
    opened = open_sessions(tmp_path, agents, lease_s=lease_s, alone=False, database=store)
    async with opened as sessions, store.heartbeat("living", LEASE_S / 9), store.heartbeat("dead", 3600):
        for owner in ("living", "dead"):
            session = await sessions.service.open(USER, None, None, "default")
            exchange = ExchangeRecord(
                id=f"of the {owner}",
                session_id=session.id,
                user_id=USER.id,
                agent_id="held",
                request_id="r",
                started_at=utc_now(),
                owner=owner,
            )
            opening = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text="hello")])
            await store.begin_exchange(exchange, opening)
        async with asyncio.timeout(2 * PATIENCE_S):
            while "dead" in await store.beats():
                await asyncio.sleep(0.05)
        assert (await sessions.record("of the dead")).status is ExchangeStatus.INTERRUPTED
        await asyncio.sleep(lease_s)
        assert (await sessions.record("of the living")).status is ExchangeStatus.RUNNING
        assert "living" in await store.beats()


async def test_a_wrong_clock_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentic_backend")
    told = [3600.0, 3600.0, -3600.0, 0.5, 0.4]

    async def compare_clocks() -> float:
        return told.pop(0) if len(told) > 1 else told[0]

    monkeypatch.setattr(maintenance, "COMPARE_CLOCKS_EVERY_S", 0.05)
    async with open_sessions(tmp_path, {"held": held_graph(Hold())}) as sessions:
        monkeypatch.setattr(sessions.store, "compare_clocks", compare_clocks, raising=False)
        async with asyncio.timeout(5):
            while len(told) > 1:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        assert metric(sessions.kpi, "chat_clock_skew_seconds") == 0.4
    assert [message for message in caplog.messages if "clock" in message] == ["clock skew", "clock skew ended"]


async def test_many_texts_are_kept_in_several_writes_each_as_young_as_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, at_once = Hold(), list[int]()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        keep = sessions.store.real.keep_partials

        async def keep_partials(owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
            await keep(owner, partials)
            at_once.append(len(partials))

        logs = [await sessions.begin("hello") for _ in range(60)]
        await eventually(lambda: hold.held == len(logs))
        # Text gathers for a moment.
        await eventually(lambda: all([text.text for text in log.partial] == ["one two "] for log in logs))
        for log in logs:
            log.append_text(0, Channel.FINAL, "more")
        monkeypatch.setattr(sessions.store.real, "keep_partials", keep_partials)
        await eventually(lambda: sum(at_once) >= len(logs))
        assert max(at_once) <= 50
        for log in logs:
            assert [text.text for text in await sessions.store.real.partial(log.exchange_id)] == ["one two more"]
        hold.released.set()
