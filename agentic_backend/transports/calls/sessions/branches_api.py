"""The REST calls about branches: sessions that share the beginning of another one."""

from agentic_backend.auth.user import User
from agentic_backend.errors import LimitReached, SessionBusy, SessionNotFound
from agentic_backend.protocol.messages import Session
from agentic_backend.protocol.views import BranchesView
from agentic_backend.sessions.branches import Branches
from agentic_backend.transports.calls.sessions.sessions_api import PREFIX
from agentic_backend.transports.rest.operation import OPENING, Operation
from agentic_backend.transports.rest.rest_input import ForkSession


class BranchesApi:
    def __init__(self, branches: Branches) -> None:
        self._branches = branches

    def operations(self) -> list[Operation]:
        path, refused = f"{PREFIX}/sessions/{{id}}", (SessionNotFound, SessionBusy, LimitReached, *OPENING)
        return [
            Operation("POST", f"{path}/fork", self.fork_session, status=201, errors=refused),
            Operation("GET", f"{path}/branches", self.list_branches, errors=(SessionNotFound,)),
        ]

    async def fork_session(self, user: User, id: str, body: ForkSession) -> Session:
        """Open a branch, which begins with a session's messages below a rank and goes on on its own."""
        return (await self._branches.fork(user, id, body.rank)).shown()

    async def list_branches(self, user: User, id: str) -> BranchesView:
        """A session's family, the oldest first: the session, what it comes from, and what comes from these."""
        return BranchesView(branches=[one.shown() for one in await self._branches.family(user, id)])
