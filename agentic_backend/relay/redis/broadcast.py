"""RedisBroadcast: the broadcast between instances on one store, through Redis.

Redis holds only the live view, which may be lost at any time: the store is the source of truth. One task holds the
connection and reconnects without limit; the tasks that publish, read and listen run inside it. It is up while a
heartbeat that is published comes back (see heartbeat).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from agentic_backend.backoff import backoff
from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.relay.broadcast import Listener, TellAway, pass_on
from agentic_backend.relay.control_messages import Joined, NotUnderstood, ResetWanted, StartedHere, Told, decode_control
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.redis.heartbeat import RedisHeartbeat, why_away
from agentic_backend.relay.redis.messages import control_channel_of
from agentic_backend.relay.redis.mirroring import RedisMirrors
from agentic_backend.relay.redis.publisher import RedisPublisher
from agentic_backend.system_errors import Away, summary_of

log = logging.getLogger(__name__)

_ANSWER_S, _SILENT_S = 2.0, 5.0
_RETRY_FIRST_S, _RETRY_AT_MOST_S = 0.1, 2.0
# A connection that ends sooner was no success: else one that fails again and again would be made anew at once.
_STEADY_S = 10.0
_LAST_WORDS_S, _CLOSE_S = 0.3, 0.5
_TELL_EVERY_S = 60.0


class RedisBroadcast:
    """`redis_broadcast` owns the task of `run`."""

    def __init__(self, url: str, instance_id: str, away: TellAway, metrics: BroadcastMetrics) -> None:
        self._url = url
        self._instance_id = instance_id
        self._tell_away = away
        self._metrics = metrics
        self._away_for: Away | None = None
        """Why Redis is away; None while it is not, and before the first attempt."""
        self._up_since: float | None = None
        """Since when it is not away, in the event loop's time."""
        self._tell_at = 0.0
        """When an unreadable message may be logged again, in the event loop's time."""
        self._listener: Listener | None = None
        """Receives the messages of other instances."""
        self._heartbeat = RedisHeartbeat(instance_id, metrics)
        self._publisher = RedisPublisher(instance_id, metrics)
        self._mirrors = RedisMirrors(
            lambda exchange_id: self._publisher.tell(ResetWanted(exchange_id=exchange_id)), metrics
        )

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def publish(self, log: ExchangeLog) -> None:
        self._mirrors.end(log.exchange_id)
        self._publisher.publish(log)

    def mirror(self, log: ExchangeLog) -> bool:
        self._mirrors.mirror(log)
        return True

    def started(self, log: ExchangeLog) -> None:
        if log.session_id is not None:
            told = StartedHere(session_id=log.session_id, exchange_id=log.exchange_id, user_id=log.user_id)
            self._publisher.tell(told)

    def tell(self, told: Told) -> None:
        self._publisher.tell(told)

    def stop(self, exchange_id: str) -> None:
        self._publisher.stop(exchange_id)

    def forget(self, exchange_ids: Collection[str]) -> None:
        for exchange_id in exchange_ids:
            self._mirrors.end(exchange_id)
        self._publisher.forget(exchange_ids)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        delays = backoff(_RETRY_FIRST_S, _RETRY_AT_MOST_S)
        while True:
            try:
                await self._connected()
            except* Exception as errors:
                # Any error: if this task ended, the instance would stay disconnected.
                self._away(errors)
            if self._up_since is not None and asyncio.get_running_loop().time() - self._up_since > _STEADY_S:
                delays = backoff(_RETRY_FIRST_S, _RETRY_AT_MOST_S)
            self._up_since = None
            self._mirrors.prune()
            await asyncio.sleep(next(delays))

    async def flush(self) -> None:
        """Wait for a moment until everything is published."""
        self._publisher.hurry()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                while not self._publisher.is_idle:
                    await asyncio.sleep(0.01)

    async def _connected(self) -> None:
        """Connect, then publish, mirror and listen. Raises the errors that end the connection."""
        redis = Redis.from_url(
            self._url,
            protocol=2,
            socket_timeout=_ANSWER_S,
            socket_connect_timeout=_ANSWER_S,
            retry=Retry(NoBackoff(), 0),
        )
        async with redis, redis.pubsub() as channels:
            control_channel = control_channel_of(redis.connection_pool.connection_kwargs.get("db", 0))
            await channels.subscribe(control_channel, self._heartbeat.channel)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(channels, control_channel))
                await self._heartbeat.beat(redis)
                self._back()
                tasks.create_task(self._publisher.run(redis, control_channel))
                tasks.create_task(self._mirrors.run(redis, channels))
                await self._heartbeat.run(redis)

    async def _listen(self, channels: PubSub, control_channel: str) -> None:
        while not is_cancelled():
            # That nothing comes is noticed by the heartbeat.
            message = await channels.get_message(timeout=_SILENT_S)
            if message is None:
                continue
            if message["channel"] == self._heartbeat.channel.encode():
                self._heartbeat.received(message["data"])
            elif message["channel"] != control_channel.encode():
                self._mirrors.wake(message["channel"].decode(errors="replace"))
            elif message["type"] == "message":
                self._receive(message["data"])

    def _receive(self, data: object) -> None:
        try:
            message = decode_control(data)
            if message.sender == self._instance_id or self._listener is None:
                return
            match message.told:
                case Joined():
                    self._publisher.tell_again()
                case ResetWanted(exchange_id=exchange_id):
                    self._publisher.begin_anew(exchange_id)
                case told:
                    pass_on(told, self._listener)
        except NotUnderstood:
            self._not_understood()
        except Exception as error:
            log.exception("handling a broadcast message failed", exc_info=error)

    def _not_understood(self) -> None:
        """Count it, and log it at most once a minute: another version may send many."""
        self._metrics.lost("unreadable")
        now = asyncio.get_running_loop().time()
        if now >= self._tell_at:
            self._tell_at = now + _TELL_EVERY_S
            log.warning("broadcast message not understood")

    def _back(self) -> None:
        if self._away_for is not None:
            log.info("the broadcast is back")
        self._away_for, self._up_since = None, asyncio.get_running_loop().time()
        self._tell_away(None)
        if self._listener is not None:
            self._listener.may_have_missed()

    def _away(self, errors: BaseExceptionGroup[Exception]) -> None:
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        why = why_away(error)
        self._tell_away(why)
        # Of an outage only the first error is logged, and those with another reason.
        if why != self._away_for:
            self._away_for = why
            # Not the error's text, which may quote the URL.
            told = {"reason": why, "error": summary_of(error)}
            log.warning("the broadcast is away", extra=told, exc_info=error if why == "other" else None)


@asynccontextmanager
async def redis_broadcast(
    url: str, instance_id: str, away: TellAway, metrics: BroadcastMetrics
) -> AsyncIterator[RedisBroadcast]:
    """The broadcast through the Redis at `url`, which may be unavailable."""
    broadcast = RedisBroadcast(url, instance_id, away, metrics)
    running = asyncio.create_task(broadcast.run())
    try:
        yield broadcast
        await broadcast.flush()
    finally:
        running.cancel()
        await asyncio.wait({running}, timeout=_CLOSE_S)
