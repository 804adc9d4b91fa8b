"""OpenConnections: counts and bounds the open sockets and SSE streams, per user and in the process.

Sockets without an authenticated user have their own limit, so that they can't keep users out.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import RateLimited

_RETRY_AFTER_S = 5


class OpenConnections:
    def __init__(self, limits: LimitsSettings) -> None:
        self._at_most = limits.max_sockets
        self._of_user_at_most = limits.sockets_per_user
        self._unauthenticated_at_most = limits.unauthenticated_sockets
        self._open: Counter[str | None] = Counter()
        """The number of open connections by user id; None counts all."""
        self._unauthenticated = 0

    @contextmanager
    def unauthenticated(self) -> Iterator[None]:
        """Count a socket that is not authenticated yet. Raises RateLimited above the limit."""
        if self._unauthenticated >= self._unauthenticated_at_most:
            raise RateLimited("Too many connections sign in.", retry_after_s=_RETRY_AFTER_S)
        self._unauthenticated += 1
        try:
            yield
        finally:
            self._unauthenticated -= 1

    @contextmanager
    def of_user(self, user_id: str) -> Iterator[None]:
        """Count an open connection of this user. Raises RateLimited above a limit."""
        for key, at_most in ((None, self._at_most), (user_id, self._of_user_at_most)):
            if at_most is not None and self._open[key] >= at_most:
                raise RateLimited("Too many connections are open.", retry_after_s=_RETRY_AFTER_S)
        self._open.update((None, user_id))
        try:
            yield
        finally:
            self._open.subtract((None, user_id))
            for key in (None, user_id):
                if not self._open[key]:
                    del self._open[key]

    def stream(self, user_id: str) -> ExitStack:
        """Count a stream of this user until the returned stack is closed. Raises RateLimited above a limit."""
        with ExitStack() as place:
            place.enter_context(self.of_user(user_id))
            return place.pop_all()
