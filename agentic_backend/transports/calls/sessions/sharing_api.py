"""The calls that share a session by a link, and that read one."""

from typing import Annotated

from pydantic import Field

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.auth.user import User
from agentic_backend.errors import LimitReached, SessionNotFound
from agentic_backend.protocol.frames import IN_ANY_NOTATION, Frame
from agentic_backend.protocol.views import CreatedShareView, SharedAgentView, SharedSessionView, SharesView, ShareView
from agentic_backend.sessions.users.sharing import SharingService
from agentic_backend.stores.protocol.trail import ShareRecord
from agentic_backend.stores.records import shown
from agentic_backend.transports.calls.sessions.sessions_api import PageOfMessages
from agentic_backend.transports.rest.operation import PREFIX, Operation


class ShareSession(Frame):
    """A new link. Without `expires_in_days` it is open as long as the server's settings say."""

    expires_in_days: Annotated[int, Field(ge=1), IN_ANY_NOTATION] | None = Field(default=None, examples=[7])


class SharingApi:
    def __init__(self, sharing: SharingService, agents: AgentManager) -> None:
        self._sharing = sharing
        self._agents = agents

    def operations(self) -> list[Operation]:
        path, found = f"{PREFIX}/sessions/{{id}}/shares", (SessionNotFound,)
        return [
            Operation("POST", path, self.share_session, status=201, errors=(*found, LimitReached)),
            Operation("GET", path, self.list_shares, errors=found),
            Operation("DELETE", f"{path}/{{share_id}}", self.revoke_share, errors=found),
            Operation("GET", f"{PREFIX}/shares/{{secret}}", self.read_share),
        ]

    async def share_session(self, user: User, id: str, body: ShareSession) -> CreatedShareView:
        """Make a link by which everybody who can sign in may read what has ended in a session."""
        share, secret = await self._sharing.share(user, id, body.expires_in_days)
        return CreatedShareView(**_view(share).model_dump(), secret=secret, path=f"/#share/{secret}")

    async def list_shares(self, user: User, id: str) -> SharesView:
        """The open links to a session, the last first. Their secrets are told only once."""
        return SharesView(shares=[_view(share) for share in await self._sharing.of_session(user, id)])

    async def revoke_share(self, user: User, id: str, share_id: str) -> None:
        """Close a link for good."""
        await self._sharing.revoke(user, id, share_id)

    async def read_share(self, user: User, secret: str, query: PageOfMessages) -> SharedSessionView:
        """A session that somebody has shared, without thoughts, and without saying whose it is."""
        page = await self._sharing.read(user, secret, query.after_rank, query.limit)
        named = (message.metadata.agent_id for message in page.messages)
        agent_ids = {page.session.agent_id, *filter(None, named)}
        return SharedSessionView(
            title=page.session.title,
            agent_id=page.session.agent_id,
            agent_name=self._agents.name_of(page.session.agent_id),
            agents=[self._agent_view(agent_id) for agent_id in sorted(agent_ids)],
            shared_at=page.share.at,
            expires_at=page.share.expires_at,
            messages=shown(page.messages),
            next_after_rank=page.next_after_rank,
        )

    def _agent_view(self, agent_id: str) -> SharedAgentView:
        return SharedAgentView(id=agent_id, name=self._agents.name_of(agent_id), icon=self._agents.icon_of(agent_id))


def _view(share: ShareRecord) -> ShareView:
    return ShareView(id=share.id, created_at=share.at, expires_at=share.expires_at, up_to_rank=share.up_to_rank)
