"""OpenConnections: how many sockets and streams (SSE) are open, of each user and in the process.

Sockets whose user isn't known yet are counted apart, so that nobody keeps users out without being one.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agentic_backend.errors import RateLimited
from agentic_backend.limits_settings import LimitsSettings

_RETRY_AFTER_S = 5


class OpenConnections:
    def __init__(self, limits: LimitsSettings) -> None:
        self._at_most = limits.max_sockets
        self._of_user_at_most = limits.sockets_per_user
        self._unauthenticated_at_most = limits.unauthenticated_sockets
        self._open: Counter[str | None] = Counter()
        """By user; None is all of them."""
        self._unauthenticated = 0

    @contextmanager
    def unauthenticated(self) -> Iterator[None]:
        """One more whose user isn't known yet. Raises RateLimited where it is one too many."""
        if self._unauthenticated >= self._unauthenticated_at_most:
            raise RateLimited("Too many connections sign in.", retry_after_s=_RETRY_AFTER_S)
        self._unauthenticated += 1
        try:
            yield
        finally:
            self._unauthenticated -= 1

    @contextmanager
    def one(self) -> Iterator[None]:
        """One more of the process's. Raises RateLimited where it is one too many."""
        with self._counted(None, self._at_most):
            yield

    @contextmanager
    def of_user(self, user_id: str) -> Iterator[None]:
        """The one that is open already is this user's. Raises RateLimited where it is one too many."""
        with self._counted(user_id, self._of_user_at_most):
            yield

    def stream(self, user_id: str) -> ExitStack:
        """The place of a stream of this user's, until it is closed. Raises RateLimited where it is one too many."""
        with ExitStack() as place:
            place.enter_context(self.one())
            place.enter_context(self.of_user(user_id))
            return place.pop_all()

    @contextmanager
    def _counted(self, key: str | None, at_most: int | None) -> Iterator[None]:
        if at_most is not None and self._open[key] >= at_most:
            raise RateLimited("Too many connections are open.", retry_after_s=_RETRY_AFTER_S)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
