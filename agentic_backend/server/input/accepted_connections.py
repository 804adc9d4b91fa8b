"""AcceptedConnections: bounds a listener's TCP connections that have sent no request yet, and the file descriptors.

Every connection takes a descriptor, and so do the store, Redis, MCP servers, models and files. If descriptors run out,
libuv silently closes new connections on every listener, and the store can't open any. So the public listener keeps a
reserve: the kernel assigns the lowest free number, and a connection with a number in the reserve is dropped.
"""

import asyncio
import logging
from collections.abc import Callable

from agentic_backend.transports.repeats import Repeats

try:
    import resource
except ImportError:  # Windows has no such limit.
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

_RESERVE_AT_MOST, _RESERVE_SHARE = 256, 4


class AcceptedConnections:
    """One per listener, owned by it. At the limit, the oldest connection without a complete request is dropped."""

    def __init__(
        self,
        *,
        silent_at_most: int,
        reserve_from: int | None = None,
        dropped: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._dropped = dropped
        """Called with the reason when a connection is dropped."""
        self._silent_at_most = silent_at_most
        self._reserve_from = reserve_from
        """The first descriptor of the reserve; None if the listener may use all."""
        self._silent: dict[asyncio.Transport, None] = {}
        """The connections without a complete request, oldest first."""
        self._repeats = Repeats()
        """Keeps the log short if many connections are dropped."""

    def accept(self, transport: asyncio.Transport) -> bool:
        """Return whether the connection may stay; drop it if not."""
        bound = transport.get_extra_info("socket")
        if self._reserve_from is None or bound is None or bound.fileno() < self._reserve_from:
            return True
        transport.abort()
        if times := self._counted("descriptors"):
            log.warning("file descriptors run out, connections are dropped", extra={"count": times})
        return False

    def silent(self, transport: asyncio.Transport) -> None:
        """Add a connection without a complete request; drop the oldest if there are too many."""
        self._silent[transport] = None
        if len(self._silent) > self._silent_at_most:
            oldest = next(iter(self._silent))
            self.heard(oldest)
            oldest.abort()
            if times := self._counted("silent"):
                log.warning("too many connections ask for nothing, the oldest are dropped", extra={"count": times})

    def heard(self, transport: asyncio.Transport) -> None:
        """Remove a connection that has sent a complete request or is closed."""
        self._silent.pop(transport, None)

    def _counted(self, reason: str) -> int:
        """Count a dropped connection; return how many to log now, or 0."""
        self._dropped(reason)
        return self._repeats.count(reason)


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard limit: the usual soft limit of 1,024 is for programs that call select()."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # macOS reports an infinite hard limit and refuses it.
        log.info("file descriptor limit unchanged", extra={"limit": soft})


def reserved_descriptors() -> int | None:
    """The first descriptor that is reserved for the server itself; None if there is no limit.

    The kernel assigns the lowest free number: if a connection gets this one, all lower numbers are taken.
    """
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return limit - min(_RESERVE_AT_MOST, limit // _RESERVE_SHARE)
