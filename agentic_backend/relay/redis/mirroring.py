"""RedisMirrors: the one task of a process that copies other instances' exchanges from Redis into logs.

A message on a stream's channel announces new entries; in addition, all streams are read every second. A log takes
over entries that continue at its end, or a `reset`. If an entry is missing, the owner is asked for a `reset`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.relay.control_messages import NotUnderstood
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.log.mirror import Mirror, MirrorLosses
from agentic_backend.relay.redis.messages import decode_entry, stream_of
from agentic_backend.relay.redis.timing import timed

_READ_EVERY_S = 1.0
# Wake-ups within this time are handled by one read.
_PACE_S = 0.01
_STREAMS_PER_READ, _ENTRIES_PER_READ = 50, 200

_Entries = Sequence[tuple[bytes, object]]


class _Mirror(Mirror):
    """It is filled from a stream."""

    def __init__(self, mirrored: ExchangeLog, now: float) -> None:
        super().__init__(mirrored, now)
        self.stream = stream_of(mirrored.exchange_id)
        """The key of the stream in Redis."""


class RedisMirrors:
    """`ask_reset` is called with the id of an exchange whose stream does not continue at the end of its log."""

    def __init__(self, ask_reset: Callable[[str], None], metrics: BroadcastMetrics) -> None:
        self._losses = MirrorLosses(ask_reset, metrics)
        self._metrics = metrics
        self._mirrors: dict[str, _Mirror] = {}
        """The mirrors, by the key of their stream."""
        self._due: set[str] = set()
        """The keys of the streams that may have new entries."""
        self._subscribed: set[str] = set()
        """The keys of the streams whose channels this connection is subscribed to."""
        self._wanted = asyncio.Event()
        """Set when a stream is due."""

    def __len__(self) -> int:
        return len(self._mirrors)

    def mirror(self, mirrored: ExchangeLog) -> None:
        mirror = _Mirror(mirrored, _now())
        before = self._mirrors.get(mirror.stream)
        if mirrored.final is None and (before is None or before.log is not mirrored):
            self._mirrors[mirror.stream] = mirror
            self.wake(mirror.stream)

    def end(self, exchange_id: str) -> None:
        """Stop mirroring the exchange: it runs here now."""
        self._mirrors.pop(stream_of(exchange_id), None)

    def wake(self, stream: str) -> None:
        """Read the stream soon: it may have new entries."""
        if stream in self._mirrors:
            self._due.add(stream)
            self._wanted.set()

    def prune(self) -> None:
        """Remove mirrors of ended exchanges, and of logs without a reader for a while."""
        now = _now()
        for stream, mirror in list(self._mirrors.items()):
            if mirror.is_over(now):
                del self._mirrors[stream]

    async def run(self, redis: Redis, channels: PubSub) -> None:
        """Read the streams until cancelled. Raises RedisError or OSError if the connection fails."""
        self._subscribed.clear()
        read_all_at = 0.0
        while not is_cancelled():
            if _now() >= read_all_at:
                self.prune()
                self._due |= set(self._mirrors)
                read_all_at = _now() + _READ_EVERY_S
            await self._subscribe(channels)
            await self._read(redis)
            await asyncio.sleep(_PACE_S)
            try:
                async with asyncio.timeout(max(read_all_at - _now(), 0)):
                    await self._wanted.wait()
            except TimeoutError:
                continue
            self._wanted.clear()

    async def _subscribe(self, channels: PubSub) -> None:
        """Subscribe to the channels of exactly the mirrored streams; a confirmation makes its stream due."""
        mirrored = set(self._mirrors)
        if wanted := mirrored - self._subscribed:
            await channels.subscribe(*wanted)
        if unwanted := self._subscribed - mirrored:
            await channels.unsubscribe(*unwanted)
        self._subscribed = mirrored

    async def _read(self, redis: Redis) -> None:
        while due := [self._mirrors[stream] for stream in self._due if stream in self._mirrors][:_STREAMS_PER_READ]:
            self._due -= {mirror.stream for mirror in due}
            places: dict[Any, int] = {mirror.stream: mirror.log.last_seq for mirror in due}
            with timed(self._metrics, "read"):
                answer = await redis.xread(dict(places), count=_ENTRIES_PER_READ)
            # With RESP2 the answer is a list; redis-py types it for all protocols.
            for key, entries in cast("list[tuple[bytes, _Entries]]", answer):
                mirror = self._mirrors.get(key.decode())
                if mirror is None:
                    continue
                self._take(mirror, entries)
                has_moved = mirror.log.last_seq > places[mirror.stream]
                if has_moved and len(entries) == _ENTRIES_PER_READ:
                    self._due.add(mirror.stream)
                elif has_moved and mirror.log.is_filling:
                    mirror.log.filled()
                await asyncio.sleep(0)
        self._due.clear()

    def _take(self, mirror: _Mirror, entries: _Entries) -> None:
        mirrored = mirror.log
        for _, fields in entries:
            try:
                event, after = decode_entry(fields)
                if event.exchange_id != mirrored.exchange_id:
                    raise NotUnderstood
            except NotUnderstood:
                self._losses.unreadable(mirror)
                continue
            if not mirror.take(event, after):
                self._losses.missing(mirror, _now())
                return


def _now() -> float:
    return asyncio.get_running_loop().time()
