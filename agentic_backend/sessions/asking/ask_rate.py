"""AskRate: limits how often each user may ask."""

from collections import deque
from collections.abc import Callable

from cachetools import TTLCache

from agentic_backend.errors import RateLimited

_WINDOW_S = 60.0
# The most users to remember; a forgotten user starts with a full allowance.
_USERS = 100_000


class AskRate:
    """Allows each user `per_minute` asks in any minute; None is no limit. `clock` returns seconds."""

    def __init__(self, per_minute: int | None, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._asks: TTLCache[str, deque[float]] = TTLCache(_USERS, _WINDOW_S, clock)

    def count(self, user_id: str) -> None:
        """Count an ask, before it is known whether it starts an exchange.

        Raises RateLimited, and counts nothing, if it exceeds the limit.
        """
        if self._per_minute is None:
            return
        now, asks = self._clock(), self._asks.get(user_id) or deque(maxlen=self._per_minute)
        if len(asks) == self._per_minute and now < asks[0] + _WINDOW_S:
            raise RateLimited(retry_after_s=round(asks[0] + _WINDOW_S - now, 3))
        asks.append(now)
        self._asks[user_id] = asks
