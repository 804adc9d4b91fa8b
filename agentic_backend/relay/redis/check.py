"""Checks the Redis between the instances: it takes what the instances publish, beside their own channels."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as TookTooLong

from agentic_backend.config.checks import CheckFailed
from agentic_backend.disclosure.exception_detail import text_of
from agentic_backend.relay.redis.heartbeat import publish_beat

_CHANNEL = "agentic:heartbeat:check"


async def check_redis(url: str, limit_s: float) -> str:
    """What was found, in words. Raises CheckFailed."""
    redis = Redis.from_url(
        url, protocol=2, socket_timeout=limit_s, socket_connect_timeout=limit_s, retry=Retry(NoBackoff(), 0)
    )
    try:
        async with redis:
            await publish_beat(redis, _CHANNEL, 0)
    except (AuthenticationError, NoPermissionError) as error:
        raise CheckFailed(_told(error), "check the user and the password in broadcast.url") from error
    except TookTooLong as error:
        raise CheckFailed("no answer in time", "check broadcast.url and the network to it") from error
    except NotConnected as error:
        # Its text has the host; a refused password is of this kind too, where it is asked for at once.
        raise CheckFailed(_told(error), "check broadcast.url, and whether that Redis runs") from error
    except RedisError as error:
        raise CheckFailed(_told(error), "check broadcast.url") from error
    return "a message was published"


def _told(error: RedisError) -> str:
    return " ".join(text_of(error).split())[:300] or type(error).__name__
