"""Upkeep: leases of what runs, the text that is being written, and what others left behind."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.held_agents import Hold, held_graph
from support.recorded_agents import eventually
from support.sessions import USER, Sessions, events_of, open_sessions, until

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, utc_now
from agentic_backend.stores.base import Lease
from agentic_backend.stores.records import ExchangeRecord

LEASE_S = 0.9


async def record_of(sessions: Sessions, exchange_id: str) -> ExchangeRecord:
    record = await sessions.store.real.get_exchange(exchange_id)
    assert record is not None
    return record


async def test_what_runs_keeps_its_lease(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, lease_s=LEASE_S) as sessions:
        log = await sessions.begin("hello")
        for _ in range(4):
            await asyncio.sleep(LEASE_S / 2)
            record = await record_of(sessions, log.exchange_id)
            assert record.deadline is not None and record.deadline > utc_now()
        hold.released.set()
        assert (await events_of(log))[-1]["status"] == "ok"


async def test_the_text_that_is_being_written_is_kept(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        log = await sessions.begin("hello")
        await until(log, "delta")
        async with asyncio.timeout(5):
            while not (record := await record_of(sessions, log.exchange_id)).partial:
                await asyncio.sleep(0.05)
        assert [text.text for text in record.partial] == ["one two "]
        hold.released.set()
        await events_of(log)
        await sessions.idle(log.session_id)
        assert (await record_of(sessions, log.exchange_id)).partial == []


async def test_what_another_instance_left_is_ended_and_its_followers_see_it(tmp_path: Path) -> None:
    hold = Hold()
    agents = {"held": held_graph(hold)}
    async with open_sessions(tmp_path, agents, lease_s=60) as dying:
        log = await dying.begin("hello")
        await until(log, "delta")
        async with asyncio.timeout(5):
            while not (record := await record_of(dying, log.exchange_id)).partial:
                await asyncio.sleep(0.05)
        assert record.owner is not None
        # As a process leaves it that is killed: an exchange that runs, and whose lease nobody renews.
        soon = utc_now() + timedelta(seconds=0.5)
        await dying.store.real.renew_leases(Lease(record.owner, soon), [log.exchange_id])
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
            record = await record_of(other, log.exchange_id)
            assert (record.status, record.owner, record.partial) == (ExchangeStatus.INTERRUPTED, None, [])
            stored = await other.stored(log.session_id)
            assert stored == events[-1]["messages"]
            # It was not dead: now it wakes up, and writes nothing.
            hold.released.set()
            assert (await events_of(log))[-1]["status"] == "interrupted"
            assert await other.stored(log.session_id) == stored


async def test_an_exchange_that_the_store_began_unheard_is_ended_by_itself(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"held": held_graph(Hold())}, lease_s=LEASE_S) as sessions:
        session = await sessions.desk.open(USER, None, None, "default")
        sessions.store.lose_next_answer("begin_exchange")
        try:
            await sessions.begin("hello", session_id=session.id)
        except StoreUnavailable:
            assert (await sessions.session(session.id)).active_exchange_id is not None
        await sessions.idle(session.id)


async def test_upkeep_goes_on_after_an_outage(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, lease_s=LEASE_S) as sessions:
        log = await sessions.begin("hello")
        with sessions.store.away("renew_leases", "keep_partials", "overdue_exchanges"):
            await asyncio.sleep(2 * LEASE_S)
        await asyncio.sleep(LEASE_S)
        record = await record_of(sessions, log.exchange_id)
        assert record.deadline is not None and record.deadline > utc_now() and record.partial
        hold.released.set()
        assert (await events_of(log))[-1]["status"] == "ok"


async def test_upkeep_ends_though_a_driver_swallows_that_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = asyncio.Event()

    async def swallow(now: datetime) -> list[ExchangeRecord]:
        looking.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(5)
        return []

    async with asyncio.timeout(4), open_sessions(tmp_path, {}, lease_s=LEASE_S) as sessions:
        monkeypatch.setattr(sessions.store, "overdue_exchanges", swallow, raising=False)
        await looking.wait()


async def test_who_was_taken_for_dead_gives_up_what_it_was_running(tmp_path: Path) -> None:
    """Though its graph says nothing that would be stored, and so be refused."""
    hold = Hold()
    agents = {"held": held_graph(hold)}
    async with open_sessions(tmp_path, agents, lease_s=LEASE_S) as slow:
        log = await slow.begin("hello")
        await until(log, "delta")
        with slow.store.away("renew_leases", "get_exchange"):
            await asyncio.sleep(1.5 * LEASE_S)
            async with open_sessions(tmp_path, agents, alone=False, lease_s=LEASE_S) as other:
                await other.idle(log.session_id)
        ended = await events_of(log)
        assert ended[-1]["status"] == "interrupted" and not hold.released.is_set()


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
        for log in logs:
            log.append_text(0, Channel.FINAL, "more")
        monkeypatch.setattr(sessions.store.real, "keep_partials", keep_partials)
        await eventually(lambda: sum(at_once) >= len(logs))
        assert max(at_once) <= 50
        for log in logs:
            assert [text.text for text in await sessions.store.real.partial(log.exchange_id)] == ["one two more"]
        hold.released.set()
