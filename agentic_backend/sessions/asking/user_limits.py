"""UserLimits: limits a user's waiting exchanges and empty sessions.

The store counts them across all instances. A limit that is off costs nothing.
"""

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import RateLimited, TooManyRuns
from agentic_backend.stores.base import Store

_RETRY_AFTER_S = 60


class UserLimits:
    def __init__(self, store: Store, limits: LimitsSettings) -> None:
        self._store = store
        self._waiting = limits.waiting_per_user
        self._empty_sessions = limits.empty_sessions_per_user

    async def check_waiting(self, user_id: str) -> None:
        """Raises TooManyRuns if the limit of waiting exchanges is reached. Exchanges that run may still exceed it."""
        if self._waiting is not None and await self._store.count_waiting(user_id) >= self._waiting:
            content = (
                f"As many of your exchanges wait for a decision as may: {self._waiting}. Decide on some, or stop them."
            )
            raise TooManyRuns(content, retry_after_s=_RETRY_AFTER_S)

    async def check_empty_sessions(self, user_id: str, branches: int = 0) -> None:
        """Raises RateLimited if the limit of empty sessions is reached; `branches` are empty ones of one session."""
        if self._empty_sessions is not None:
            if await self._store.count_empty_sessions(user_id) + branches >= self._empty_sessions:
                content = (
                    f"As many of your sessions are empty as may: {self._empty_sessions}. Use some, or delete them."
                )
                raise RateLimited(content, retry_after_s=_RETRY_AFTER_S)
