"""Two instances' broadcasts on a real Redis: what one publishes of an exchange, the other has in a log of its own."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from services.redis import Redis
from support.broadcasting import (
    TEXTS,
    a_log,
    an_instance,
    ask,
    carry_a_thousand_events,
    end,
    same,
    say,
    start,
    store,
    two,
    until,
)
from support.log_client import LogClient

from agentic_backend.protocol.events import Activity, ExchangeEvent, Reset
from agentic_backend.protocol.messages import Session, utc_now
from agentic_backend.relay.control_messages import Changed
from agentic_backend.relay.log import mirror
from agentic_backend.relay.redis import publisher as redis_publisher
from agentic_backend.relay.redis.messages import decode_entry, entry_of, stream_of


async def test_a_thousand_events_arrive_in_order_and_byte_equal(opened: AsyncExitStack, redis_url: str) -> None:
    here, there = await two(opened, redis_url)
    await carry_a_thousand_events(here, there)


async def test_who_comes_late_gets_what_was(opened: AsyncExitStack, redis_url: str) -> None:
    here, there = await two(opened, redis_url)
    log = here.publish(a_log())
    start(log)
    say(log, "one ", "two ")
    store(log, 0, "one two ", 0)
    say(log, "three ", block=1)
    early = there.follow("e")
    await same(early.log, log)
    say(log, "four", block=1)
    late = (await an_instance(opened, redis_url, "c")).follow("e")
    for client in (early, late):
        await same(client.log, log)
        client.catch_up()
    assert early.transcript == late.transcript and late.resets == 0
    assert [text.split(": ", 1)[1] for text in late.blocks.values()] == ["three four"]


async def test_tokens_are_gathered_and_other_events_come_at_once(opened: AsyncExitStack, redis: Redis) -> None:
    here, there = await two(opened, redis.url)
    log = here.publish(a_log("gathered"))
    start(log)
    far = there.follow("gathered")
    began = time.monotonic()
    for _ in range(100):
        say(log, "word ")
        await asyncio.sleep(0.002)
    for number in range(20):
        log.append(Activity(**log.next_place(), kind="agent_switch", data={"n": number}))
        await until(lambda: far.log.last_seq == log.last_seq)
    took_s = time.monotonic() - began
    with redis.client() as client:
        entries = await asyncio.to_thread(client.xlen, stream_of("gathered"))
    assert entries - 21 < took_s / 0.03


async def test_what_is_told_reaches_the_other_and_not_oneself(opened: AsyncExitStack, redis_url: str) -> None:
    here, there = await two(opened, redis_url)
    session = Session(
        id="s", user_id="ann", agent_id="a", title="T", created_at=utc_now(), updated_at=utc_now(), next_rank=0
    )
    log = a_log("told")
    here.broadcast.stop("told")
    here.broadcast.started(log)
    here.broadcast.tell(Changed(session=session))
    await until(lambda: len(there.listener.told) == 3)
    assert there.listener.told == [("stopped", "told"), ("started", "s", "told", "ann"), ("changed", session)]
    assert here.listener.told == []


async def test_who_joins_is_told_what_runs_and_what_was_to_be_stopped(opened: AsyncExitStack, redis_url: str) -> None:
    here, there = await two(opened, redis_url)
    running, ended = here.publish(a_log("runs")), here.publish(a_log("has ended"))
    start(running)
    start(ended)
    end(ended)
    far = there.follow("has ended")
    await same(far.log, ended)
    here.broadcast.stop("unheard")
    # Who joins before it is told would hear it twice.
    await until(lambda: ("stopped", "unheard") in there.listener.told)
    joining = await an_instance(opened, redis_url, "c")
    await until(lambda: len(joining.listener.told) == 2)
    assert joining.listener.told == [("started", "s", "runs", "ann"), ("stopped", "unheard")]


async def test_a_listener_that_fails_is_told_on(
    opened: AsyncExitStack, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = await two(opened, redis_url)
    there.listener.fails = True
    here.broadcast.stop("x")
    await until(lambda: "handling a broadcast message failed" in caplog.text)
    there.listener.fails = False
    here.broadcast.stop("y")
    await until(lambda: ("stopped", "y") in there.listener.told)


async def test_an_exchange_that_waits_goes_on_elsewhere(opened: AsyncExitStack, redis_url: str) -> None:
    here, there = await two(opened, redis_url)
    log = here.publish(a_log("waits"))
    start(log)
    far = there.follow("waits")
    ask(log)
    await same(far.log, log)
    await until(lambda: not here.broadcast._publisher._published)
    here.broadcast.mirror(log)
    far.log.jump_to(log.last_seq + 2000)
    there.publish(far.log)
    near = LogClient(log)
    # What is written before the log is read again comes in its reset.
    await until(lambda: not there.broadcast._publisher._due)
    store(far.log, 0, "approved")
    end(far.log)
    await until(lambda: log.final is not None)
    near.catch_up()
    far.catch_up()
    assert near.messages == far.messages and near.final == far.final
    assert near.resets == far.resets == 0


async def test_no_key_is_without_an_end_and_every_mirror_ends(
    opened: AsyncExitStack, redis: Redis, redis_url: str
) -> None:
    here, there = await two(opened, redis_url)
    logs = [here.publish(a_log(f"many-{number}")) for number in range(2000)]
    followers = [there.follow(log.exchange_id) for log in logs]
    for log in logs:
        start(log)
        say(log, "text")
        end(log)
    for follower, log in zip(followers, logs, strict=True):
        await same(follower.log, log, 30)
    await until(lambda: len(there.broadcast._mirrors) == 0)
    await until(lambda: not here.broadcast._publisher._published)
    with redis.client() as client:
        assert all(client.ttl(key) > 0 for key in client.scan_iter("*", 1000))
        keys = list(client.scan_iter("agentic:exchange:*", 1000))
        assert len(keys) == 2000
        ttls = [client.ttl(key) for key in keys[:300]]
        # Given up a moment after the mirrors.
        await until(lambda: client.pubsub_channels("agentic:exchange:*") == [])
    assert redis_publisher.ENDED_STREAM_TTL_S - 60 < min(ttls) <= max(ttls) <= redis_publisher.ENDED_STREAM_TTL_S


async def test_a_mirror_that_nobody_follows_ends(
    opened: AsyncExitStack, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "UNFOLLOWED_S", 0.5)
    here, there = await two(opened, redis_url)
    log = here.publish(a_log("left"))
    start(log)
    far = there.follow("left")
    await same(far.log, log)
    await asyncio.sleep(1)
    assert len(there.broadcast._mirrors) == 1
    far.leave()
    await until(lambda: len(there.broadcast._mirrors) == 0)
    say(log, "more")
    far.follow()
    there.broadcast.mirror(far.log)
    await same(far.log, log)


async def test_closing_publishes_what_is_left(redis_url: str, opened: AsyncExitStack) -> None:
    there = await an_instance(opened, redis_url, "b")
    far = there.follow("closing")
    async with AsyncExitStack() as first:
        here = await an_instance(first, redis_url, "a")
        await until(lambda: here.ups == [True])
        log = here.publish(a_log("closing"))
        start(log)
        say(log, "last words")
        end(log)
    await same(far.log, log)


def test_every_event_comes_back_as_it_was() -> None:
    log = a_log()
    start(log)
    say(log, *TEXTS)
    store(log, 0, "".join(TEXTS), 0)
    ask(log)
    end(log)
    events: list[ExchangeEvent] = [*log.read(0), *(event for event in log.read(-1) if isinstance(event, Reset))]
    for event in events:
        fields = {name.encode(): str(value).encode() for name, value in entry_of(event, 7).items()}
        assert decode_entry(fields) == (event, 7)
