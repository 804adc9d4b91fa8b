"""SharingService: links by which everybody who can sign in may read a session, until they expire or are revoked.

A link has a secret of 256 bits, of which only the SHA-256 is stored: who reads the database can't use a link. It shows
what had ended in the session when it was made, and nothing that came later. Who reads it is told neither whose the
session is nor the agents' thoughts.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256

from agentic_backend.auth.user import User
from agentic_backend.config.topics.sessions import SharingSettings
from agentic_backend.errors import BadFrame, Forbidden, LimitReached, NotFound
from agentic_backend.kpi import Kpi
from agentic_backend.mcp import APP_PART
from agentic_backend.policy.session_log import session_shared, share_revoked
from agentic_backend.protocol.messages import Channel, MessageMetadata
from agentic_backend.protocol.parts import CustomPart, ImageUrlPart, Part, TextPart
from agentic_backend.sessions.access import PAGE_BYTES, owned_session
from agentic_backend.sessions.asking.ask_rate import AskRate
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import ShareRecord, TrailQuery
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.tables import SHARES

SHARES_PER_SESSION = 20
READS_PER_MINUTE = 120
_SECRET_BYTES = 32
_LONGEST_SECRET = 128


@dataclass(frozen=True, slots=True)
class SharedPage:
    """A shared session, and a page of its messages; `next_after_rank` is that of the next page, None on the last."""

    share: ShareRecord
    session: SessionRecord
    messages: list[MessageRecord]
    next_after_rank: int | None


class SharingService:
    """Every method raises Forbidden if sharing is off."""

    def __init__(
        self, store: Store, settings: SharingSettings, kpi: Kpi, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self.settings = settings
        self._kpi = kpi
        self._reads = AskRate(READS_PER_MINUTE, clock)

    async def share(self, user: User, session_id: str, days: int | None) -> tuple[ShareRecord, str]:
        """A new link to what has ended in the user's session, and its secret, which nobody can be told again.

        Raises SessionNotFound, BadFrame if nothing has ended or `days` are too many, and LimitReached.
        """
        self._check_enabled()
        if days is not None and days > self.settings.longest_days:
            raise BadFrame(f"expires_in_days: at most {self.settings.longest_days}")
        session = await owned_session(self._store, user.id, session_id)
        up_to_rank = await self._ended_below(session)
        if not up_to_rank:
            raise BadFrame("The session has no answer yet that could be shared.")
        if len(await self._open(session_id)) >= SHARES_PER_SESSION:
            raise LimitReached(f"A session has at most {SHARES_PER_SESSION} links; revoke one first.")
        secret, now = secrets.token_urlsafe(_SECRET_BYTES), self._store.now()
        share = ShareRecord(
            id=_hashed(secret),
            at=now,
            session_id=session_id,
            user_id=user.id,
            up_to_rank=up_to_rank,
            expires_at=now + timedelta(days=days or self.settings.default_days),
        )
        await self._store.add_trail([share])
        session_shared(session, share)
        self._kpi.sessions.shared("created")
        return share, secret

    async def of_session(self, user: User, session_id: str) -> list[ShareRecord]:
        """The links to the user's session that are open, the last first. Raises SessionNotFound."""
        self._check_enabled()
        await owned_session(self._store, user.id, session_id)
        return await self._open(session_id)

    async def revoke(self, user: User, session_id: str, share_id: str) -> None:
        """Close a link to the user's session for good. Raises SessionNotFound, and NotFound if there is no such one."""
        self._check_enabled()
        session = await owned_session(self._store, user.id, session_id)
        share = next((each for each in await self._open(session_id) if each.id == share_id), None)
        if share is None:
            raise _no_share()
        await self._store.remove_trail(ShareRecord, share.id)
        share_revoked(session, share)
        self._kpi.sessions.shared("revoked")

    async def read(self, user: User, secret: str, after_rank: int, limit: int) -> SharedPage:
        """A page of what the link shares, for any user.

        Raises NotFound if there is no such link, it is closed, or its session is gone; RateLimited.
        """
        self._check_enabled()
        self._reads.count(user.id)
        share = await self._share_of(secret)
        session = None if share is None else await self._store.get_session(share.session_id)
        if share is None or session is None or session.user_id != share.user_id:
            self._kpi.sessions.shared("missed")
            raise _no_share()
        found = await self._store.messages_after(session.id, after_rank, limit, PAGE_BYTES)
        page = [message for message in found if message.rank < share.up_to_rank]
        has_more = bool(page) and page[-1].rank + 1 < share.up_to_rank
        self._kpi.sessions.shared("read")
        return SharedPage(share, session, _as_shared(page), page[-1].rank if has_more else None)

    async def delete_expired(self, limit: int) -> int:
        """Delete at most `limit` links that have expired; how many."""
        return await self._store.delete_old(SHARES, self._store.now(), limit)

    def _check_enabled(self) -> None:
        if not self.settings.enabled:
            raise Forbidden("Sessions can't be shared on this server.")

    async def _ended_below(self, session: SessionRecord) -> int:
        """The rank below which everything in the session has ended."""
        if session.active_exchange_id is None:
            return session.next_rank
        active = await self._store.get_exchange(session.active_exchange_id)
        return session.next_rank if active is None or active.status.ended else active.first_rank

    async def _open(self, session_id: str) -> list[ShareRecord]:
        now, open_ones, cursor = self._store.now(), [], None
        while True:
            page = await self._store.trail(TrailQuery(ShareRecord, {"session_id": session_id}, cursor=cursor))
            open_ones += [share for share in page.records if share.expires_at > now]
            if (cursor := page.next_cursor) is None:
                return open_ones

    async def _share_of(self, secret: str) -> ShareRecord | None:
        if len(secret) > _LONGEST_SECRET:
            return None
        # By the hash: how long the search takes tells nothing of a secret.
        page = await self._store.trail(TrailQuery(ShareRecord, {"id": _hashed(secret)}, limit=1))
        return next((share for share in page.records if share.expires_at > self._store.now()), None)


def _hashed(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _no_share() -> NotFound:
    return NotFound("There is no such link; it may have expired or been revoked.")


def _as_shared(messages: list[MessageRecord]) -> list[MessageRecord]:
    """The messages without thoughts, and without what tells of the owner and of what an answer took."""
    return [
        replace(
            message,
            session_id=None,
            parts=[_shared(part) for part in message.parts if not _is_attached_image(part)],
            metadata=MessageMetadata(
                model=message.metadata.model, sources=message.metadata.sources, agent_id=message.metadata.agent_id
            ),
        )
        for message in messages
        if message.channel is not Channel.THOUGHT
    ]


def _shared(part: Part) -> Part:
    """The part; of a result in a document of an MCP server, which only the owner can fetch, the words."""
    return TextPart(text=part.text) if isinstance(part, CustomPart) and part.kind == APP_PART else part


def _is_attached_image(part: Part) -> bool:
    """Whether only the owner can fetch it; a part of its own names the file."""
    return isinstance(part, ImageUrlPart) and part.url.startswith("/")
