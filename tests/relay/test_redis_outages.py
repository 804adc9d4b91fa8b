"""What instances show of each other while Redis goes, comes back, loses what it had, or holds rubbish."""

import asyncio
import logging
import random
from contextlib import AsyncExitStack

import pytest
from services.redis import Redis
from support.broadcasting import a_log, an_instance, end, hears, same, say, start, store, two, until
from support.log_client import LogClient
from support.recorded_agents import away_for, metric

from agentic_backend.protocol.events import Activity
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.redis import publisher as redis_publisher
from agentic_backend.relay.redis.messages import stream_of
from agentic_backend.relay.redis.publisher import STREAM_MAX_EVENTS
from agentic_backend.telemetry.ids import logged_with


@pytest.mark.parametrize("how", ["trimmed", "shortened to nothing", "replaced by garbage", "of another type"])
async def test_a_stream_that_can_not_be_read_is_begun_anew(opened: AsyncExitStack, redis: Redis, how: str) -> None:
    here, there = await two(opened, redis.url)
    log = here.publish(a_log(how))
    start(log)
    for number in range(50):
        say(log, f"{number} ")
        log.append(Activity(**log.next_place(), kind="agent_switch", data={"n": number}))
    early = there.follow(how)
    await same(early.log, log)
    key = stream_of(how)
    with redis.client() as client:
        match how:
            case "trimmed":
                client.xtrim(key, maxlen=10, approximate=False)
            case "shortened to nothing":
                client.xtrim(key, maxlen=0, approximate=False)
            case "replaced by garbage":
                client.delete(key)
                client.xadd(key, {"version": 9, "event": "s3cret"})
            case _:
                client.delete(key)
                client.set(key, "s3cret")
                client.expire(key, 60)
    if how == "of another type":
        log.append(Activity(**log.next_place(), kind="agent_switch", data={}))
        await asyncio.sleep(0.3)
    late = (await an_instance(opened, redis.url, "c")).follow(how)
    say(log, "and more")
    for client in (early, late):
        await same(client.log, log)
    end(log)
    for client in (early, late):
        await same(client.log, log)
        client.catch_up()
    assert early.messages == late.messages and early.final == late.final is not None


async def test_redis_restarts_empty_in_mid_stream(
    opened: AsyncExitStack, own_redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = await two(opened, own_redis.url)
    with logged_with(request_id="order-17"):
        log = here.publish(a_log())
    start(log)
    near, far = LogClient(log), there.follow("e")
    writing = asyncio.create_task(write_on(log))
    await until(lambda: far.log.last_seq > 20)
    await asyncio.to_thread(own_redis.stop)
    other = here.publish(a_log("begun meanwhile"))
    start(other)
    far_other = there.follow("begun meanwhile")
    here.broadcast.started(other)
    here.broadcast.stop("x")
    await asyncio.sleep(1.5)
    await until(lambda: here.ups[-1] is there.ups[-1] is False)
    told = [record for record in caplog.records if record.message == "exchange is not shown elsewhere"]
    # The other one is told of too, if it began before the publisher had seen that its connection is gone.
    named = [(vars(record)["exchange_id"], vars(record).get("request_id")) for record in told]
    assert ("e", "order-17") in named and len(set(named)) == len(named)
    assert set(named) <= {("e", "order-17"), ("begun meanwhile", None)}
    seen = far.log.last_seq
    await asyncio.to_thread(own_redis.start)
    await until(lambda: far.log.last_seq > seen + 100)
    await same(far_other.log, other)
    await until(lambda: ("stopped", "x") in there.listener.told)
    for exchange_id in ("begun meanwhile", "e"):
        await until(lambda told=("started", "s", exchange_id, "ann"): told in there.listener.told)  # type: ignore[misc]
    assert not writing.done()
    writing.cancel()
    store(log, 0, log.partial[0].text, 0)
    end(log)
    await same(far.log, log)
    near.catch_up()
    far.catch_up()
    assert near.messages == far.messages and near.final == far.final is not None


async def write_on(log: ExchangeLog) -> None:
    while True:
        say(log, "word ")
        await asyncio.sleep(0.005)


async def test_an_outage_is_told_once_and_holds_no_logs(
    opened: AsyncExitStack, own_redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    url = own_redis.url.replace("redis://", "redis://ann:s3cret@")
    await asyncio.to_thread(own_redis.stop)
    here = await an_instance(opened, url.replace("ann:s3cret@", ""), "a")
    for number in range(3000):
        log = here.publish(a_log(f"e{number}", compact_after=64))
        start(log)
        end(log)
    del log
    await until(lambda: len(here.ups) > 1)
    assert not any(here.ups)
    assert metric(here.kpi, "chat_broadcast_backlog", what="exchanges") == 0, "their logs are gone"
    running = here.publish(a_log(compact_after=64))
    reader = LogClient(running)
    for _ in range(5000):
        say(running, "word ")
        reader.catch_up()
    assert len(running._entries) < 200
    await asyncio.to_thread(own_redis.start)
    await until(lambda: here.ups[-1])
    told = [record.getMessage() for record in caplog.records if record.name.endswith("redis.broadcast")]
    assert told == ["the broadcast is away", "the broadcast is back"]
    assert "s3cret" not in caplog.text
    await until(lambda: metric(here.kpi, "chat_broadcast_backlog", what="exchanges") == 0)


@pytest.mark.parametrize("reason", ["read_only", "full", "refuses_writes"])
async def test_a_redis_that_answers_but_takes_no_writes_is_away_until_it_takes_one(
    opened: AsyncExitStack, own_redis: Redis, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    """Nobody runs or reads anything meanwhile, and no attempt of those to connect again looks like a success."""
    caplog.set_level(logging.INFO)
    here, there = await two(opened, own_redis.url)
    with own_redis.client() as client:
        refuse, take = REFUSALS[reason]
        client.execute_command(*refuse)
        assert client.ping() and client.publish("agentic:0:other", b"") is not None
        await until(lambda: not (here.ups[-1] or there.ups[-1]))
        told = len(here.ups)
        await until(lambda: len(here.ups) > told + 3)
        assert here.ups == [True] + [False] * (len(here.ups) - 1)
        assert away_for(here.kpi, "broadcast") == [reason]
        client.execute_command(*take)
    await until(lambda: here.ups[-1] and there.ups[-1])
    assert away_for(here.kpi, "broadcast") == []
    await hears(there, here)
    assert told_of_redis(caplog) == [("the broadcast is away", reason)] * 2 + [("the broadcast is back", None)] * 2


async def test_the_reason_of_an_outage_is_told_again_when_it_changes(
    opened: AsyncExitStack, own_redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """A changed password does not end a connection: it is refused when the next one is made."""
    caplog.set_level(logging.INFO)
    with own_redis.client() as client:
        client.acl_setuser("ann", enabled=True, passwords="+s3cret", keys="*", channels="*", commands=["+@all"])
        here = await an_instance(opened, own_redis.url.replace("redis://", "redis://ann:s3cret@"), "a")
        await until(lambda: here.ups == [True])
        client.acl_setuser("ann", passwords=["-s3cret", "+other-s3cret"])
        here.broadcast.stop("x")
        await until(lambda: metric(here.kpi, "chat_broadcast_backlog", what="messages") == 0)
        assert here.ups == [True]
        client.client_kill_filter(user="ann", skipme=True)
        await until(lambda: away_for(here.kpi, "broadcast") == ["refused_credentials"])
    await asyncio.to_thread(own_redis.stop)
    await until(lambda: away_for(here.kpi, "broadcast") == ["unreachable"])
    await asyncio.to_thread(own_redis.start)
    await until(lambda: away_for(here.kpi, "broadcast") == ["refused_credentials"])
    with own_redis.client() as client:
        client.acl_setuser("ann", enabled=True, passwords="+s3cret", keys="*", channels="*", commands=["+@all"])
    await until(lambda: here.ups[-1])
    assert away_for(here.kpi, "broadcast") == []
    away = [reason for message, reason in told_of_redis(caplog) if message == "the broadcast is away"]
    # The connection that was killed may be noticed before.
    assert away[-3:] == ["refused_credentials", "unreachable", "refused_credentials"]
    assert told_of_redis(caplog)[-1] == ("the broadcast is back", None)
    assert "s3cret" not in caplog.text


# What makes a Redis refuse writes, and what ends it.
REFUSALS = {
    "read_only": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
    "full": (("CONFIG", "SET", "maxmemory", "1mb"), ("CONFIG", "SET", "maxmemory", "0")),
    "refuses_writes": (
        ("CONFIG", "SET", "min-replicas-to-write", "1"),
        ("CONFIG", "SET", "min-replicas-to-write", "0"),
    ),
}


def told_of_redis(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str | None]]:
    return [
        (record.message, vars(record).get("reason"))
        for record in caplog.records
        if record.name.endswith("redis.broadcast")
    ]


async def test_what_waits_for_redis_and_what_no_longer_fits_is_counted(
    opened: AsyncExitStack, own_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_publisher, "_TOLD_AT_MOST", 5)
    await asyncio.to_thread(own_redis.stop)
    here = await an_instance(opened, own_redis.url, "a")
    logs = [here.publish(a_log(f"e{number}")) for number in range(3)]
    for log in logs:
        here.broadcast.started(log)
        here.broadcast.stop(log.exchange_id)
    here.broadcast.forget(["gone", "gone too"])
    waiting = {what: metric(here.kpi, "chat_broadcast_backlog", what=what) for what in ("exchanges", "messages")}
    assert waiting == {"exchanges": 3, "messages": 5}
    assert metric(here.kpi, "chat_broadcast_backlog", what="deletions") == 2
    assert metric(here.kpi, "chat_broadcast_lost_total", what="message") == 1
    await asyncio.to_thread(own_redis.start)
    for log in logs:
        start(log)
    for what in ("exchanges", "messages", "deletions"):
        await until(lambda what=what: metric(here.kpi, "chat_broadcast_backlog", what=what) == 0)  # type: ignore[misc]


async def test_a_slow_redis_shows_in_the_time_of_its_round_trips(opened: AsyncExitStack, own_redis: Redis) -> None:
    here = await an_instance(opened, own_redis.url, "a")
    await until(lambda: here.ups[-1:] == [True])
    log = here.publish(a_log())
    await until(lambda: metric(here.kpi, "chat_broadcast_command_seconds_count", command="publish", outcome="ok") > 0)
    with own_redis.client() as client:
        client.execute_command("CLIENT", "PAUSE", 700, "ALL")
    start(log)
    await until(lambda: metric(here.kpi, "chat_broadcast_command_seconds_sum", command="publish", outcome="ok") > 0.5)


async def test_garbage_is_told_without_its_content_and_hurts_nobody(
    opened: AsyncExitStack, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = await two(opened, redis.url)
    log = here.publish(a_log("garbage"))
    start(log)
    far = there.follow("garbage")
    await same(far.log, log)
    choice = random.Random(2)
    with redis.client() as client:
        for _ in range(200):
            client.publish("agentic:0:control", choice.randbytes(30) + b"s3cret")
            client.xadd(stream_of("garbage"), {choice.randbytes(3): b"s3cret"})
        for told in (b'{"version":2,"sender":"z","told":{"type":"stop","exchange_id":"s3cret"}}', b"null", b"[]", b""):
            client.publish("agentic:0:control", told)
    say(log, "and on it goes")
    await same(far.log, log)
    here.broadcast.stop("x")
    await until(lambda: there.listener.told == [("stopped", "x")])
    assert "not understood" in caplog.text and "s3cret" not in caplog.text
    assert here.ups == there.ups == [True]


async def test_a_stream_holds_no_more_events_than_it_may(opened: AsyncExitStack, redis: Redis) -> None:
    """What is oldest goes; who comes then begins with a reset, and has all of it."""
    here, there = await two(opened, redis.url)
    log = here.publish(a_log("long"))
    start(log)
    early = there.follow("long")
    for number in range(STREAM_MAX_EVENTS + 500):
        log.append(Activity(**log.next_place(), kind="agent_switch", data={"n": number}))
        if number % 500 == 0:
            await same(early.log, log)
    await same(early.log, log)
    with redis.client() as client:
        # Redis takes whole nodes away, of 100 entries each.
        assert STREAM_MAX_EVENTS <= client.xlen(stream_of("long")) < STREAM_MAX_EVENTS + 100
    say(log, "the answer")
    late = (await an_instance(opened, redis.url, "c")).follow("long")
    await same(late.log, log)
    end(log)
    for client_of in (early, late):
        await same(client_of.log, log)
        client_of.catch_up()
    assert early.blocks == late.blocks and early.final == late.final is not None
