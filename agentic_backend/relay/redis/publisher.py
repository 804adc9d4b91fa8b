"""RedisPublisher: the one task of a process that writes its exchanges' events and its control messages to Redis.

It reads each log by a cursor as a feed does, but it is no feed: it sends the events of all logs in one round trip, each
with the seq of the event before, and tracks for each log what Redis has accepted. It is not paced as a feed either: the
text of all exchanges gathers together, and events are so frequent that text after them can't be sent at once.

A stream that Redis has lost, or that a reader can't continue, is restarted with a `reset`, which contains everything so
far. So each stream begins with `started` or a `reset`. While Redis is unavailable no log is read, so that the logs can
be compacted; a log is published later only if something else has kept it alive.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from itertools import islice
from weakref import WeakKeyDictionary, WeakValueDictionary

from cachetools import TTLCache
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.protocol.events import Activity, AwaitingHuman, Delta, ExchangeEvent, Final, Reset, Started
from agentic_backend.relay.control_messages import ControlMessage, Joined, StartedHere, StopWanted, Told
from agentic_backend.relay.log.exchange_log import Cursor, ExchangeLog
from agentic_backend.relay.redis.messages import entry_of, stream_of
from agentic_backend.relay.redis.timing import timed
from agentic_backend.telemetry.ids import log_ids
from agentic_backend.tracing.spans import CLIENT, Attributes, OpenSpan, context_of_call, error_type, opened

_LOG = logging.getLogger(__name__)

STREAM_MAX_EVENTS = 10_000
STREAM_TTL_S = 3600
# Who comes later reads the store. At fifty turns a second an hour of ended streams is a gigabyte.
ENDED_STREAM_TTL_S = 300
# How long text gathers, so that not every token costs a command; people don't notice the delay.
_TEXT_INTERVAL_S = 0.04
# A stream's time to live is renewed with the first event after this time.
_RENEW_AFTER_S = 60
_LOGS_PER_ROUND, _TOLD_AT_MOST = 200, 10_000
# Longer than it takes to notice a dead connection and to reconnect.
_STOPS_AT_MOST, _STOP_TOLD_AGAIN_S = 1_000, 30
_FORGOTTEN_AT_MOST = 100_000
_ANEW = -1
# How many exchanges the log names at an outage.
_TOLD_OF_AT_MOST = 100


# Spans of what is published: one for each exchange that a round trip to Redis tells of, in the exchange's own trace.
#
# A round trip serves many exchanges, in the publisher's task: so each exchange's context is kept from where it began.
# Text that goes on has no span, else a long answer would have one every few milliseconds.


class PublishedFor:
    """The call that a log was published in: its ids, for lines about the log, and the span that it is beneath."""

    def __init__(self) -> None:
        self.ids: Mapping[str, object] = log_ids()
        self.context: Context = context_of_call()

    def begin(self, events: Sequence[ExchangeEvent]) -> OpenSpan | None:
        """Begin the span of sending these; None if nothing records it."""
        if all(isinstance(event, Delta | Activity) for event in events):
            return None
        facts: Attributes = {
            "db.system.name": "redis",
            "db.operation.name": "XADD",
            "db.operation.batch.size": len(events),
        }
        return self.context.run(opened, "XADD", CLIENT, facts)


@contextmanager
def sending(batches: Sequence[tuple[PublishedFor, Sequence[ExchangeEvent]]]) -> Iterator[None]:
    """The round trip inside sends these batches."""
    begun = [(call, span) for call, events in batches if (span := call.begin(events)) is not None]
    try:
        yield
    except BaseException as error:
        for _, span in begun:
            span.fail(error_type(error))
        raise
    finally:
        for call, span in begun:
            call.context.run(span.end)


class _Publication:
    """A published log."""

    def __init__(self, log: ExchangeLog, call: PublishedFor) -> None:
        self.log = log
        self.call = call
        self.stream = stream_of(log.exchange_id)
        """The key of its stream in Redis."""
        self.cursor: Cursor | None = None
        """The place up to which events were sent to Redis; None until `_place` is called."""
        self.ids = {**call.ids, "exchange_id": log.exchange_id, "session_id": log.session_id, "user_id": log.user_id}
        """For the lines about it."""
        self.renew_at = 0.0
        """When the stream's time to live is renewed next, in the event loop's time."""


class RedisPublisher:
    """Its methods return at once; `run` sends to Redis while there is a connection."""

    def __init__(self, instance_id: str, metrics: BroadcastMetrics) -> None:
        self._instance_id = instance_id
        self._metrics = metrics
        self._connected = False
        self._waiting: WeakValueDictionary[str, ExchangeLog] = WeakValueDictionary()
        """The logs to publish once there is a connection, by exchange id."""
        self._calls: WeakKeyDictionary[ExchangeLog, PublishedFor] = WeakKeyDictionary()
        """The calls that the logs were published in, which outlive a connection."""
        self._published: dict[str, _Publication] = {}
        """The published logs, by exchange id."""
        self._due: dict[_Publication, None] = {}
        """The published logs with unsent events, oldest first."""
        self._told: deque[bytes] = deque(maxlen=_TOLD_AT_MOST)
        """The unsent control messages."""
        self._forgotten: deque[str] = deque(maxlen=_FORGOTTEN_AT_MOST)
        """The keys of the streams to delete."""
        self._stops: TTLCache[str, StopWanted] = TTLCache(_STOPS_AT_MOST, _STOP_TOLD_AGAIN_S)
        """Recent requests to stop, by exchange id: they are repeated to instances that join."""
        self._is_sending = False
        """Whether a round trip is under way."""
        self._wanted = asyncio.Event()
        """Set when the next round trip is due."""
        self._gathering: asyncio.TimerHandle | None = None
        """Runs while text gathers, then sets `_wanted`."""
        metrics.backlog("exchanges", lambda: len(self._due) + len(self._waiting))
        metrics.backlog("messages", lambda: len(self._told))
        metrics.backlog("deletions", lambda: len(self._forgotten))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to send, or nothing can be sent."""
        return not self._connected or not (self._due or self._told or self._forgotten or self._is_sending)

    def publish(self, log: ExchangeLog) -> None:
        self._let_go(log.exchange_id)
        self._calls[log] = PublishedFor()
        if self._connected:
            self._follow(log)
        else:
            self._waiting[log.exchange_id] = log

    def begin_anew(self, exchange_id: str) -> None:
        """Restart the stream with a `reset`, if the exchange is published here."""
        publication = self._published.get(exchange_id)
        if publication is not None:
            self._place(publication)

    def tell(self, told: Told) -> None:
        """Send a message to the other instances. While Redis is unavailable, the oldest messages are dropped first."""
        if len(self._told) == _TOLD_AT_MOST:
            self._metrics.lost("message")
        self._told.append(ControlMessage(sender=self._instance_id, told=told).encode())
        self._wanted.set()

    def stop(self, exchange_id: str) -> None:
        """Ask the exchange's owner to stop it; repeated for a while to instances that join."""
        told = self._stops[exchange_id] = StopWanted(exchange_id=exchange_id)
        self.tell(told)

    def forget(self, exchange_ids: Iterable[str]) -> None:
        """Delete the streams of these exchanges. If Redis stays away, they end by their time to live."""
        for exchange_id in exchange_ids:
            if len(self._forgotten) == _FORGOTTEN_AT_MOST:
                self._metrics.lost("deletion")
            self._forgotten.append(stream_of(exchange_id))
        self._wanted.set()

    def tell_again(self) -> None:
        """Send again which exchanges run here and which are to be stopped; instances that know ignore it."""
        for publication in self._published.values():
            log = publication.log
            if log.session_id is not None:
                self.tell(StartedHere(session_id=log.session_id, exchange_id=log.exchange_id, user_id=log.user_id))
        for told in list(self._stops.values()):
            self.tell(told)

    def hurry(self) -> None:
        """Send gathered text now."""
        self._wanted.set()

    async def run(self, redis: Redis, control_channel: str) -> None:
        """Publish until cancelled. Raises RedisError or OSError if the connection fails."""
        self._connected = True
        for log in list(self._waiting.values()):
            self._follow(log)
        self._waiting.clear()
        # The others answer `Joined` with their state, and get ours: the order of joining does not matter.
        self.tell(Joined())
        self.tell_again()
        try:
            while not is_cancelled():
                # No timeout: nothing may need sending for a long time.
                await self._wanted.wait()
                self._wanted.clear()
                self._is_sending = True
                await self._send(redis, control_channel)
                self._is_sending = False
        finally:
            for publication in islice(self._published.values(), _TOLD_OF_AT_MOST):
                _LOG.warning("exchange is not shown elsewhere", extra=publication.ids)
            self._connected = self._is_sending = False
            logs = [publication.log for publication in self._published.values()]
            for log in logs:
                self._let_go(log.exchange_id)
                self._waiting[log.exchange_id] = log

    def _follow(self, log: ExchangeLog) -> None:
        publication = _Publication(log, self._calls[log])
        self._published[log.exchange_id] = publication
        self._place(publication)

    def _place(self, publication: _Publication) -> None:
        """Read the log from its beginning if it is empty, otherwise starting with a `reset`."""
        log = publication.log
        if publication.cursor is not None:
            log.unfollow(publication.cursor)

        def wake() -> None:
            self._due[publication] = None
            self._wanted.set()

        def wake_for_text() -> None:
            self._due[publication] = None
            if self._gathering is None:
                self._gathering = asyncio.get_running_loop().call_later(_TEXT_INTERVAL_S, self._wanted.set)

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
        """Send everything due in one round trip."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        due = list(islice(self._due, _LOGS_PER_ROUND))
        told = list(self._told)
        # In one transaction, so that a stream never lacks its time to live.
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
        forgotten = self._add_deletions(pipeline)
        if not len(pipeline):
            return
        batches = [(publication.call, events) for publication, events, _ in sent]
        with timed(self._metrics, "publish"), sending(batches):
            results = await pipeline.execute(raise_on_error=False)
        for _ in told:
            self._told.popleft()
        self._has_deleted(forgotten)
        for publication, events, place in sent:
            self._sent(publication, events, results[place])

    def _add_deletions(self, pipeline: Pipeline) -> int:
        """Add deletions of streams to the pipeline; how many."""
        forgotten = list(islice(self._forgotten, _LOGS_PER_ROUND))
        if forgotten:
            pipeline.delete(*forgotten)
        return len(forgotten)

    def _has_deleted(self, count: int) -> None:
        for _ in range(count):
            self._forgotten.popleft()
        if self._forgotten:
            self._wanted.set()

    def _add(self, pipeline: Pipeline, publication: _Publication) -> tuple[list[ExchangeEvent], slice]:
        """Add the log's new events to the pipeline; return them and the slice of their results."""
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
            has_ended = isinstance(events[-1], Final)
            pipeline.expire(publication.stream, ENDED_STREAM_TTL_S if has_ended else STREAM_TTL_S)
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
            # The stream was lost, or another instance has written to it.
            self._place(publication)
        elif _is_last(events[-1]) and events[-1].seq == publication.log.last_seq:
            self._let_go(exchange_id)


def _is_last(event: ExchangeEvent) -> bool:
    """Whether it may be the log's last event for a long time."""
    return isinstance(event, Final | AwaitingHuman)
