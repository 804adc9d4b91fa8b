"""Instances that broadcast, by Redis or by ZeroMQ, and logs with events."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import Activity, AwaitingHuman, Final, HumanRequests, Started, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.broadcast import TellAway
from agentic_backend.relay.log.exchange_log import Cursor, ExchangeLog
from agentic_backend.relay.redis.broadcast import RedisBroadcast, redis_broadcast
from agentic_backend.relay.zmq.broadcast import ZmqBroadcast, zmq_broadcast
from agentic_backend.relay.zmq.peers import Peers
from agentic_backend.system_errors import Away
from support.log_client import LogClient
from support.told_listener import ToldListener

PATIENCE_S = 30
TEXTS = ["a", "ä€", "\n", "\U0001f600", "\\\"'{}", "\u2028\x00", "word "]


class Follower(LogClient):
    """Reads a mirrored log."""

    def __init__(self, mirror: ExchangeLog) -> None:
        self.log = mirror
        super().__init__(mirror)


class Instance:
    """A broadcast with its listener; `ups` are its reports whether it is up, `kpi` has its metrics."""

    def __init__(self, broadcast: RedisBroadcast | ZmqBroadcast, ups: list[bool], kpi: Kpi) -> None:
        self.broadcast = broadcast
        self.ups = ups
        self.kpi = kpi
        self.listener = ToldListener()
        broadcast.listen(self.listener)

    def publish(self, log: ExchangeLog) -> ExchangeLog:
        self.broadcast.publish(log)
        return log

    def follow(self, exchange_id: str) -> Follower:
        """A reader of a new, empty mirror."""
        mirror = a_log(exchange_id)
        client = Follower(mirror)
        self.broadcast.mirror(mirror)
        return client


def _reports() -> tuple[list[bool], Kpi, TellAway]:
    """Those whether a broadcast is up, its metrics, and what takes both."""
    ups, kpi = list[bool](), Kpi()

    def away(why: Away | None) -> None:
        ups.append(why is None)
        kpi.dependencies.broadcast_away(why)

    return ups, kpi, away


async def an_instance(opened: AsyncExitStack, url: str, name: str) -> Instance:
    ups, kpi, away = _reports()
    broadcast = await opened.enter_async_context(redis_broadcast(url, name, away, kpi.broadcast))
    return Instance(broadcast, ups, kpi)


async def a_worker(opened: AsyncExitStack, peers: Peers, name: str) -> Instance:
    ups, kpi, away = _reports()
    broadcast = await opened.enter_async_context(zmq_broadcast(peers, name, away, kpi.broadcast))
    return Instance(broadcast, ups, kpi)


async def two(opened: AsyncExitStack, url: str) -> tuple[Instance, Instance]:
    instances = await an_instance(opened, url, "a"), await an_instance(opened, url, "b")
    for instance in instances:
        await until(lambda instance=instance: instance.ups[-1:] == [True])  # type: ignore[misc]
    here, there = instances
    await hears(here, there)
    await hears(there, here)
    return here, there


async def hears(listening: Instance, telling: Instance) -> None:
    """Wait until `listening` has received everything from `telling`, then clear its notes."""
    greeting = f"hello {len(listening.listener.told)}"
    telling.broadcast.started(a_log(greeting))
    await until(lambda: ("started", "s", greeting, "ann") in listening.listener.told)
    listening.listener.told.clear()


async def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.005)


def a_log(exchange_id: str = "e", **options: int) -> ExchangeLog:
    return ExchangeLog("s", exchange_id, user_id="ann", **options)


def start(log: ExchangeLog) -> None:
    log.append(Started(**log.next_place(), agent_id="agent", session=None))


def say(log: ExchangeLog, *texts: str, block: int = 0) -> None:
    for text in texts:
        log.append_text(block, Channel.FINAL, text)


def progress(log: ExchangeLog, step: int) -> None:
    log.append(Activity(**log.next_place(), kind="progress", data={"step": step}))


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
    log.append(Stream(**log.next_place(), message=message, block=block))


def end(log: ExchangeLog) -> None:
    log.append(
        Final(
            **log.next_place(),
            status=ExchangeStatus.OK,
            messages=log.messages,
            session=None,
            usage=TokenUsage(input_tokens=1),
        )
    )


def ask(log: ExchangeLog) -> None:
    log.append(AwaitingHuman(**log.next_place(), payload=HumanRequests(requests=[])))


def reader(log: ExchangeLog, after_seq: int = 0) -> Cursor:
    return log.follow(after_seq, lambda: None)


def shown(log: ExchangeLog) -> list[str]:
    """The encoded events for a new reader."""
    return [event.encode() for event in log.read(-1)]


async def same(mirror: ExchangeLog, log: ExchangeLog, patience_s: float = PATIENCE_S) -> None:
    await until(lambda: mirror.last_seq >= log.last_seq, patience_s)
    assert shown(mirror) == shown(log)


async def carry_a_thousand_events(here: Instance, there: Instance) -> None:
    """Publish events of all kinds `here`, at an uneven pace; `there` gets them in order and byte-equal."""
    log, choice = here.publish(a_log()), random.Random(1)
    start(log)
    near, far = LogClient(log), there.follow("e")
    written: dict[int, str] = {}
    for number in range(1000):
        match choice.randrange(8):
            case 0:
                log.append(Activity(**log.next_place(), kind="progress", data={"message": number}))
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
