"""The REST call that streams what changes in the list of the caller's sessions."""

from agentic_backend.auth.user import User
from agentic_backend.transports.calls.sessions.sessions_api import PREFIX
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import Operation
from agentic_backend.transports.sse import EVENTS, EventStream, list_stream


class SessionListEventsApi:
    """Its path comes before that of one session, which it matches too."""

    def __init__(self, services: DoorServices) -> None:
        self._door = services

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/sessions/events", self.follow_sessions, answer=EVENTS)]

    async def follow_sessions(self, user: User) -> EventStream:
        """Each change of a session of the caller's: `session`, `session_deleted`. Begins with `following_sessions`."""
        with self._door.connections.stream(user.id) as place:
            return list_stream(self._door, user, place)
