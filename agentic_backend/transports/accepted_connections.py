"""AcceptedConnections: a listener's TCP connections that have asked for nothing yet, and the descriptors they take.

Where file descriptors run out, libuv accepts a connection and closes it without a word, on every listener, and the
store can open none either. So the public listener leaves a reserve: the kernel gives the lowest number that is free,
and a connection whose number lies in the reserve is dropped.
"""

import asyncio
import logging
from collections.abc import Callable

from agentic_backend.transports.repeats import Repeats

log = logging.getLogger(__name__)


class AcceptedConnections:
    """`reserve_from` is the first descriptor of the reserve; None where the listener may use it.

    Of connections that have sent no whole request `silent_at_most` stay; the oldest makes room. `dropped` is told why
    one was dropped.
    """

    def __init__(
        self,
        *,
        silent_at_most: int,
        reserve_from: int | None = None,
        dropped: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._dropped = dropped
        self._silent_at_most = silent_at_most
        self._reserve_from = reserve_from
        self._silent: dict[asyncio.Transport, None] = {}
        """The oldest first."""
        self._repeats = Repeats()

    def accept(self, transport: asyncio.Transport) -> bool:
        """Whether the connection may stay; it is dropped where it may not."""
        bound = transport.get_extra_info("socket")
        if self._reserve_from is None or bound is None or bound.fileno() < self._reserve_from:
            return True
        transport.abort()
        self._note("descriptors", "file descriptors run out, connections are dropped")
        return False

    def silent(self, transport: asyncio.Transport) -> None:
        """It has sent no whole request."""
        self._silent[transport] = None
        if len(self._silent) > self._silent_at_most:
            oldest = next(iter(self._silent))
            self.heard(oldest)
            oldest.abort()
            self._note("silent", "too many connections ask for nothing, the oldest are dropped")

    def heard(self, transport: asyncio.Transport) -> None:
        """It has sent a request, or is gone."""
        self._silent.pop(transport, None)

    def _note(self, reason: str, message: str) -> None:
        self._dropped(reason)
        times = self._repeats.count(reason)
        if times:
            log.warning(message, extra={"count": times})
