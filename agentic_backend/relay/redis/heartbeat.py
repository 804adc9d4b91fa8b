"""RedisHeartbeat: the proof that Redis takes what is published, and brings it.

A PING says little: a replica answers it, and takes a PUBLISH too, which then stays on it; a Redis whose memory is full
answers it as well. So each second the commands of a publication go to a stream and a channel of this instance's own,
and only what comes back on the channel's connection counts.
"""

import asyncio

from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as TookTooLong

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.relay.redis.timing import timed
from agentic_backend.system_errors import Away, away_reason_of

# Also the time in which a broken connection is noticed.
_BEAT_EVERY_S = 1.0
_COMES_BACK_S = 5.0
# An instance that is gone leaves no key behind.
_KEPT_S = 60


class RedisHeartbeat:
    def __init__(self, instance_id: str, metrics: BroadcastMetrics) -> None:
        self._metrics = metrics
        self.channel = f"agentic:heartbeat:{instance_id}"
        """Of its messages, and the key of its stream."""
        self._last = 0
        self._came_back = asyncio.Event()

    def received(self, data: object) -> None:
        """A message of the channel."""
        if data == str(self._last).encode():
            self._came_back.set()

    async def beat(self, redis: Redis) -> None:
        """Publish once, and wait until it is back. Raises RedisError or OSError, a TimeoutError among them."""
        self._last += 1
        self._came_back.clear()
        with timed(self._metrics, "heartbeat"):
            await publish_beat(redis, self.channel, self._last)
        async with served_timeout(_COMES_BACK_S):
            await self._came_back.wait()

    async def run(self, redis: Redis) -> None:
        """Beat until cancelled. Raises as `beat`."""
        while not is_cancelled():
            await asyncio.sleep(_BEAT_EVERY_S)
            await self.beat(redis)


async def publish_beat(redis: Redis, channel: str, number: int) -> None:
    """Publish the number as an event of an exchange is. Raises RedisError or OSError."""
    pipeline = redis.pipeline(transaction=True)
    pipeline.xadd(channel, {"beat": number}, maxlen=1, approximate=False)
    pipeline.expire(channel, _KEPT_S)
    pipeline.publish(channel, str(number))
    await pipeline.execute()


def why_away(error: BaseException) -> Away:
    """Why nothing can be published, in one word; the error's text may quote the URL."""
    match error:
        case AuthenticationError():
            return "refused_credentials"
        case NoPermissionError():
            return "no_permission"
        case ReadOnlyError():
            return "read_only"
        case OutOfMemoryError():
            return "full"
        case BusyLoadingError() | ResponseError():
            # It starts, can't save (MISCONF), or lacks its replicas or its master.
            return "refuses_writes"
        case TookTooLong() | TimeoutError():
            return "no_answer"
        case RedisError() | OSError():
            return away_reason_of(error, "unreachable")
        case _:
            return "other"
