"""SessionList: what changes in the list of the user's sessions, as its reader sees it."""

from collections.abc import Callable

from agentic_backend.client.errors import ChatError
from agentic_backend.client.places import Inbox
from agentic_backend.protocol.events import Event, FollowingSessions, SessionChanged, SessionDeleted
from agentic_backend.protocol.frames import FollowSessions


class SessionList:
    """An asynchronous iterator of `FollowingSessions`, `SessionChanged` and `SessionDeleted`.

    At each `FollowingSessions` its reader reads `Rest.sessions`: it comes first, after a lost connection, and where
    changes were missed, also because this reader was too slow.
    """

    def __init__(self, *, send: Callable[[FollowSessions], None], forget: Callable[["SessionList"], None]) -> None:
        self._send = send
        self._forget = forget
        self._inbox = Inbox()
        self._is_behind = False
        """Whether unread events were dropped, and the reader has not come back since."""
        self._has_begun = False
        """Whether `FollowingSessions` has come: before it another reader may be told of changes."""

    def __aiter__(self) -> "SessionList":
        return self

    async def __anext__(self) -> Event:
        if self._is_behind:
            self._is_behind = False
            self._send(FollowSessions())
        event = await self._inbox.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """Read no more of it."""
        self._forget(self)
        self._inbox.end()

    @property
    def is_due(self) -> bool:
        """Whether a new connection has to follow it."""
        return not self._is_behind

    def take(self, event: SessionChanged | SessionDeleted | FollowingSessions, size: int) -> None:
        """Keep an event, which came with `size` bytes, if it counts."""
        self._has_begun = self._has_begun or isinstance(event, FollowingSessions)
        if self._is_behind or not self._has_begun:
            return
        if not self._inbox.put(event, size):
            self._inbox.clear()
            self._is_behind, self._has_begun = True, False

    def fail(self, error: ChatError) -> None:
        self._forget(self)
        self._inbox.end(error)
