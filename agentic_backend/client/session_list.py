"""SessionList: what changes in the list of the user's sessions, as its reader sees it."""

from collections.abc import Callable

from agentic_backend.client.event_reader import EventReader
from agentic_backend.protocol.events import FollowingSessions, SessionChanged, SessionDeleted
from agentic_backend.protocol.frames import FollowSessions


class SessionList(EventReader):
    """An asynchronous iterator of `FollowingSessions`, `SessionChanged` and `SessionDeleted`.

    At each `FollowingSessions` its reader reads `Rest.sessions`: it comes first, after a lost connection, and where
    changes were missed, also because this reader was too slow.
    """

    def __init__(self, *, send: Callable[[FollowSessions], None], forget: Callable[["SessionList"], None]) -> None:
        super().__init__(follow=lambda: send(FollowSessions()), forget=lambda: forget(self))
        self._has_begun = False
        """Whether `FollowingSessions` has come: before it another reader may be told of changes."""

    def take(self, event: SessionChanged | SessionDeleted | FollowingSessions, size: int) -> None:
        """Keep an event, which came with `size` bytes, if it counts."""
        self._has_begun = self._has_begun or isinstance(event, FollowingSessions)
        if self._is_behind or not self._has_begun:
            return
        self._has_begun = self._keep(event, size)
