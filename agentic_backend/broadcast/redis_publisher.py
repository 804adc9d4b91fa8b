"""RedisPublisher: the one task of a process that writes its exchanges' events into Redis, and its control messages.

It reads each log by a cursor. A stream that Redis has lost, or that somebody can't read, is begun anew with a `reset`,
which has all that was: so each begins with `started` or a `reset`. While Redis is away nothing is read, so that the
logs can be compacted, and a log is only published later if somebody else keeps it until then.
"""

import asyncio
from collections import deque
from itertools import islice
from weakref import WeakValueDictionary

from cachetools import TTLCache
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from agentic_backend.broadcast.exchange_log import Cursor, ExchangeLog
from agentic_backend.broadcast.redis_messages import (
    ControlMessage,
    Joined,
    StartedHere,
    StopWanted,
    Told,
    entry_of,
    stream_of,
)
from agentic_backend.cancellation import is_cancelled
from agentic_backend.protocol.events import AwaitingHuman, ExchangeEvent, Final, Reset, Started

STREAM_MAX_EVENTS = 10_000
STREAM_TTL_S = 3600
# Text gathers for so long, so that a token doesn't cost a command; people don't see it.
_PACE_S = 0.04
# Of an exchange that is silent for this long the stream's time is renewed with its next event.
_RENEW_AFTER_S = 60
_LOGS_PER_ROUND, _TOLD_AT_MOST = 200, 10_000
# Longer than it takes to notice that a connection is dead, and to make another.
_STOPS_AT_MOST, _STOP_TOLD_AGAIN_S = 1_000, 30
_ANEW = -1


class _Publication:
    """A published log, and its cursor; `renew_at` is when the stream's time to live is set next."""

    def __init__(self, log: ExchangeLog) -> None:
        self.log = log
        self.stream = stream_of(log.exchange_id)
        self.cursor: Cursor | None = None
        self.renew_at = 0.0


class RedisPublisher:
    """Whatever is called here returns at once; `run` brings it to Redis while there is a connection."""

    def __init__(self, instance_id: str) -> None:
        self._instance_id = instance_id
        self._connected = False
        self._waiting: WeakValueDictionary[str, ExchangeLog] = WeakValueDictionary()
        """What is to be published once there is a connection."""
        self._published: dict[str, _Publication] = {}
        self._due: dict[_Publication, None] = {}
        self._told: deque[bytes] = deque(maxlen=_TOLD_AT_MOST)
        self._stops: TTLCache[str, StopWanted] = TTLCache(_STOPS_AT_MOST, _STOP_TOLD_AGAIN_S)
        self._is_sending = False
        self._wanted = asyncio.Event()
        self._paced: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to be sent, or nothing can be."""
        return not self._connected or not (self._due or self._told or self._is_sending)

    def publish(self, log: ExchangeLog) -> None:
        self._let_go(log.exchange_id)
        if self._connected:
            self._follow(log)
        else:
            self._waiting[log.exchange_id] = log

    def begin_anew(self, exchange_id: str) -> None:
        """Write the stream again, as a `reset` and what follows; where the exchange is published here."""
        publication = self._published.get(exchange_id)
        if publication is not None:
            self._place(publication)

    def tell(self, told: Told) -> None:
        """Tell the other instances; what is told first is forgotten first while Redis is away."""
        self._told.append(ControlMessage(sender=self._instance_id, told=told).encode())
        self._wanted.set()

    def stop(self, exchange_id: str) -> None:
        """Tell that the exchange is to be stopped, and for a while tell whoever joins."""
        told = self._stops[exchange_id] = StopWanted(exchange_id=exchange_id)
        self.tell(told)

    def tell_again(self) -> None:
        """Tell what nobody may miss: what runs here, and what is to be stopped. Who has heard it before ignores it."""
        for publication in self._published.values():
            log = publication.log
            if log.session_id is not None:
                self.tell(StartedHere(session_id=log.session_id, exchange_id=log.exchange_id, user_id=log.user_id))
        for told in list(self._stops.values()):
            self.tell(told)

    def hurry(self) -> None:
        """Don't let text gather any longer."""
        self._wanted.set()

    async def run(self, redis: Redis, control_channel: str) -> None:
        """Publish, until cancelled. Raises RedisError and OSError once the connection is of no use."""
        self._connected = True
        for log in list(self._waiting.values()):
            self._follow(log)
        self._waiting.clear()
        # Whoever joins last is told by the others, and tells them: nobody has to be there first.
        self.tell(Joined())
        self.tell_again()
        try:
            while not is_cancelled():
                await self._wanted.wait()
                self._wanted.clear()
                self._is_sending = True
                await self._send(redis, control_channel)
                self._is_sending = False
        finally:
            self._connected = self._is_sending = False
            logs = [publication.log for publication in self._published.values()]
            for log in logs:
                self._let_go(log.exchange_id)
                self._waiting[log.exchange_id] = log

    def _follow(self, log: ExchangeLog) -> None:
        publication = _Publication(log)
        self._published[log.exchange_id] = publication
        self._place(publication)

    def _place(self, publication: _Publication) -> None:
        """Read it from its beginning, where nothing is there yet, or else as a `reset`."""
        log = publication.log
        if publication.cursor is not None:
            log.unfollow(publication.cursor)

        def wake() -> None:
            self._due[publication] = None
            self._wanted.set()

        def wake_for_text() -> None:
            self._due[publication] = None
            if self._paced is None:
                self._paced = asyncio.get_running_loop().call_later(_PACE_S, self._wanted.set)

        publication.cursor = log.follow(_ANEW if log.last_seq else 0, wake, wake_for_text)
        publication.renew_at = 0.0
        if log.last_seq:
            wake()

    def _let_go(self, exchange_id: str) -> None:
        self._waiting.pop(exchange_id, None)
        publication = self._published.pop(exchange_id, None)
        if publication is not None:
            self._due.pop(publication, None)
            assert publication.cursor is not None
            publication.log.unfollow(publication.cursor)

    async def _send(self, redis: Redis, control_channel: str) -> None:
        """One round trip with what is due."""
        if self._paced is not None:
            self._paced.cancel()
            self._paced = None
        due = list(islice(self._due, _LOGS_PER_ROUND))
        told = list(self._told)
        # In one transaction: a stream never lacks its time to live.
        pipeline = redis.pipeline(transaction=True)
        sent: list[tuple[_Publication, list[ExchangeEvent], slice]] = []
        for publication in due:
            del self._due[publication]
            events, place = self._add(pipeline, publication)
            if events:
                sent.append((publication, events, place))
        if self._due:
            self._wanted.set()
        for message in told:
            pipeline.publish(control_channel, message)
        if not len(pipeline):
            return
        results = await pipeline.execute(raise_on_error=False)
        for _ in told:
            self._told.popleft()
        for publication, events, place in sent:
            self._sent(publication, events, results[place])

    def _add(self, pipeline: Pipeline, publication: _Publication) -> tuple[list[ExchangeEvent], slice]:
        """Add what the log has to the pipeline: the events, and where the answers to them will be."""
        assert publication.cursor is not None
        after = publication.cursor.position
        events = publication.cursor.take()
        if not events:
            return [], slice(0)
        if isinstance(events[0], Reset):
            pipeline.delete(publication.stream)
        first = len(pipeline)
        for event in events:
            pipeline.xadd(
                publication.stream,
                dict(entry_of(event, after)),
                id=str(event.seq),
                maxlen=STREAM_MAX_EVENTS,
                nomkstream=not isinstance(event, Started | Reset),
            )
            after = event.seq
        place = slice(first, len(pipeline))
        now = asyncio.get_running_loop().time()
        if now >= publication.renew_at or _is_last(events[-1]):
            publication.renew_at = now + _RENEW_AFTER_S
            pipeline.expire(publication.stream, STREAM_TTL_S)
        pipeline.publish(publication.stream, b"")
        return events, place

    def _sent(self, publication: _Publication, events: list[ExchangeEvent], results: list[object]) -> None:
        exchange_id = publication.log.exchange_id
        if self._published.get(exchange_id) is not publication:
            return
        refused = [result for result in results if not isinstance(result, bytes)]
        if refused:
            if isinstance(events[0], Reset) and isinstance(refused[0], RedisError):
                raise refused[0]
            # The stream is gone, or somebody else has written into it.
            self._place(publication)
        elif _is_last(events[-1]) and events[-1].seq == publication.log.last_seq:
            self._let_go(exchange_id)


def _is_last(event: ExchangeEvent) -> bool:
    """Whether nothing may follow for long."""
    return isinstance(event, Final | AwaitingHuman)
