"""Two instances' broadcasts on a real Redis: what one publishes of an exchange, the other has in a log of its own."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from services.redis import Redis
from support.log_client import LogClient
from support.told_listener import ToldListener

from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    ExchangeEvent,
    Final,
    HumanRequests,
    Reset,
    Started,
    Stream,
)
from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    ExchangeStatus,
    Role,
    Session,
    TokenUsage,
    utc_now,
)
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions import redis_mirrors, redis_publisher
from agentic_backend.sessions.exchange_log import ExchangeLog
from agentic_backend.sessions.redis_broadcast import RedisBroadcast, redis_broadcast
from agentic_backend.sessions.redis_messages import stream_of

pytestmark = pytest.mark.redis

PATIENCE_S = 10
TEXTS = ["a", "ä€", "\n", "\U0001f600", "\\\"'{}", "\u2028\x00", "word "]


class Follower(LogClient):
    """Reads a log that is a mirror."""

    def __init__(self, mirror: ExchangeLog) -> None:
        self.log = mirror
        super().__init__(mirror)


class Instance:
    """A broadcast with its listener; `ups` is what it has said of Redis."""

    def __init__(self, broadcast: RedisBroadcast, ups: list[bool]) -> None:
        self.broadcast = broadcast
        self.ups = ups
        self.listener = ToldListener()
        broadcast.listen(self.listener)

    def publish(self, log: ExchangeLog) -> ExchangeLog:
        self.broadcast.publish(log, log.last_seq)
        return log

    def follow(self, exchange_id: str) -> Follower:
        """A reader of a mirror that begins with nothing."""
        mirror = a_log(exchange_id)
        client = Follower(mirror)
        self.broadcast.mirror(mirror)
        return client


@pytest.fixture
async def opened() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def an_instance(opened: AsyncExitStack, url: str, name: str) -> Instance:
    ups: list[bool] = []
    return Instance(await opened.enter_async_context(redis_broadcast(url, name, ups.append)), ups)


async def two(opened: AsyncExitStack, url: str) -> tuple[Instance, Instance]:
    instances = await an_instance(opened, url, "a"), await an_instance(opened, url, "b")
    for instance in instances:
        await until(lambda instance=instance: instance.ups == [True])  # type: ignore[misc]
    return instances


async def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.005)


def a_log(exchange_id: str = "e", **options: int) -> ExchangeLog:
    return ExchangeLog("s", exchange_id, user_id="ann", **options)


def start(log: ExchangeLog) -> None:
    log.append(Started, agent_id="agent", session=None)


def say(log: ExchangeLog, *texts: str, block: int = 0) -> None:
    for text in texts:
        log.append_text(block, Channel.FINAL, text)


def store(log: ExchangeLog, rank: int, text: str, block: int | None = None) -> None:
    message = ChatMessage(
        role=Role.ASSISTANT,
        channel=Channel.FINAL,
        parts=[TextPart(text=text)],
        session_id="s",
        exchange_id=log.exchange_id,
        rank=rank,
        timestamp=utc_now(),
    )
    log.append(Stream, message=message, block=block)


def end(log: ExchangeLog) -> None:
    log.append(Final, status=ExchangeStatus.OK, messages=log.messages, session=None, usage=TokenUsage(input_tokens=1))


def ask(log: ExchangeLog) -> None:
    log.append(AwaitingHuman, payload=HumanRequests(requests=[]))


def shown(log: ExchangeLog) -> list[str]:
    """All that a reader who comes now is shown, as it is sent."""
    return [event.encode() for event in log.read(-1)]


async def same(mirror: ExchangeLog, log: ExchangeLog, patience_s: float = PATIENCE_S) -> None:
    await until(lambda: mirror.last_seq >= log.last_seq, patience_s)
    assert shown(mirror) == shown(log)


async def test_a_thousand_events_arrive_in_order_and_byte_equal(opened: AsyncExitStack, redis_url: str) -> None:
    here, there = await two(opened, redis_url)
    log, choice = here.publish(a_log()), random.Random(1)
    start(log)
    near, far = LogClient(log), there.follow("e")
    written: dict[int, str] = {}
    for number in range(1000):
        match choice.randrange(8):
            case 0:
                log.append(Activity, kind="progress", data={"message": number})
            case 1 if written:
                block, text = written.popitem()
                store(log, len(log.messages), text, block)
            case _:
                text = choice.choice(TEXTS)
                block = choice.choice([*written, number])
                written[block] = written.get(block, "") + text
                say(log, text, block=block)
        if choice.random() < 0.1:
            await asyncio.sleep(choice.random() / 50)
            far.catch_up()
    for block, text in written.items():
        store(log, len(log.messages), text, block)
    end(log)
    await same(far.log, log)
    far.catch_up()
    near.catch_up()
    assert far.transcript == near.transcript
    assert far.resets == 0 and far.final is not None
    assert here.listener.told == there.listener.told == []


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
    began, latest = time.monotonic(), []
    for _ in range(100):
        say(log, "word ")
        await asyncio.sleep(0.002)
    for number in range(20):
        before = time.monotonic()
        log.append(Activity, kind="agent_switch", data={"n": number})
        await until(lambda: far.log.last_seq == log.last_seq)
        latest.append(time.monotonic() - before)
    took_s = time.monotonic() - began
    with redis.client() as client:
        entries = await asyncio.to_thread(client.xlen, stream_of("gathered"))
    assert entries - 21 < took_s / 0.03
    assert sorted(latest)[10] < 0.5
    print(f"an event is on another instance after {sorted(latest)[10] * 1000:.1f} ms")


@pytest.mark.parametrize("how", ["trimmed", "shortened to nothing", "replaced by garbage", "of another type"])
async def test_a_stream_that_can_not_be_read_is_begun_anew(opened: AsyncExitStack, redis: Redis, how: str) -> None:
    here, there = await two(opened, redis.url)
    log = here.publish(a_log(how))
    start(log)
    for number in range(50):
        say(log, f"{number} ")
        log.append(Activity, kind="agent_switch", data={"n": number})
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
        log.append(Activity, kind="agent_switch", data={})
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


async def test_redis_restarts_empty_in_mid_stream(opened: AsyncExitStack, own_redis: Redis) -> None:
    here, there = await two(opened, own_redis.url)
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
    assert here.ups[-1] is there.ups[-1] is False
    seen = far.log.last_seq
    await asyncio.to_thread(own_redis.start)
    back_at = time.monotonic()
    await until(lambda: far.log.last_seq > seen + 100)
    back_s = time.monotonic() - back_at
    await same(far_other.log, other)
    await until(lambda: ("stopped", "x") in there.listener.told)
    assert ("started", "s", "begun meanwhile", "ann") in there.listener.told
    assert ("started", "s", "e", "ann") in there.listener.told
    assert not writing.done()
    writing.cancel()
    store(log, 0, log.partial[0].text, 0)
    end(log)
    await same(far.log, log)
    near.catch_up()
    far.catch_up()
    assert near.messages == far.messages and near.final == far.final is not None
    assert back_s < 10
    print(f"seen again {back_s:.1f} s after Redis was back")


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
    await asyncio.sleep(1.5)
    assert len(here.ups) > 1 and not any(here.ups)
    assert len(here.broadcast._publisher._waiting) == 0
    running = here.publish(a_log(compact_after=64))
    reader = LogClient(running)
    for _ in range(5000):
        say(running, "word ")
        reader.catch_up()
    assert len(running._entries) < 200
    await asyncio.to_thread(own_redis.start)
    await until(lambda: here.ups[-1])
    told = [record.getMessage() for record in caplog.records if record.name.endswith("redis_broadcast")]
    assert told == ["the relay is away", "the relay is back"]
    assert "s3cret" not in caplog.text


async def test_what_is_told_reaches_the_other_and_not_oneself(opened: AsyncExitStack, redis_url: str) -> None:
    here, there = await two(opened, redis_url)
    session = Session(
        id="s", user_id="ann", agent_id="a", title="T", created_at=utc_now(), updated_at=utc_now(), next_rank=0
    )
    log = a_log("told")
    here.broadcast.stop("told")
    here.broadcast.started(log)
    here.broadcast.changed(session)
    await until(lambda: len(there.listener.told) == 3)
    assert there.listener.told == [("stopped", "told"), ("started", "s", "told", "ann"), ("changed", session)]
    assert here.listener.told == []


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


async def test_a_listener_that_fails_is_told_on(
    opened: AsyncExitStack, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = await two(opened, redis_url)
    there.listener.fails = True
    here.broadcast.stop("x")
    await until(lambda: "could not be acted upon" in caplog.text)
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
    await asyncio.sleep(0.1)
    store(far.log, 0, "approved")
    end(far.log)
    await until(lambda: log.final is not None)
    near.catch_up()
    far.catch_up()
    assert near.messages == far.messages and near.final == far.final
    assert near.resets == far.resets == 0


async def test_no_key_is_without_an_end_and_every_mirror_ends(opened: AsyncExitStack, redis: Redis) -> None:
    here, there = await two(opened, redis.url)
    logs = [here.publish(a_log(f"many-{number}")) for number in range(2000)]
    followers = [there.follow(log.exchange_id) for log in logs]
    for log in logs:
        start(log)
        say(log, "text")
        end(log)
    for follower, log in zip(followers, logs, strict=True):
        await same(follower.log, log, 30)
    await until(lambda: len(there.broadcast._mirrors) == 0)
    assert not here.broadcast._publisher._published
    with redis.client() as client:
        keys = list(client.scan_iter("*", 1000))
        assert len(keys) >= 2000
        ttls = [client.ttl(key) for key in keys[:300]]
        channels = client.pubsub_channels()
    assert min(ttls) > redis_publisher.STREAM_TTL_S - 60
    assert channels == [b"agentic:0:control"]


async def test_a_mirror_that_nobody_follows_ends(
    opened: AsyncExitStack, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_mirrors, "_UNFOLLOWED_S", 0.5)
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
    from agentic_backend.sessions.redis_messages import decode_entry, entry_of

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
