"""KeptUiResources: keeps the UI resources of MCP servers with the session, as its attachments.

So a conversation looks the same whenever it is opened, also when the server is gone, and what it was shown with goes
with it.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from hashlib import sha256

from agentic_backend.disclosure.exception_detail import type_of
from agentic_backend.errors import LimitReached
from agentic_backend.mcp import UI_RESOURCE
from agentic_backend.protocol.parts import attachment_url
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import AttachmentRecord, SessionRecord
from agentic_backend.stores.tables import ATTACHMENTS

log = logging.getLogger(__name__)

MOST = 20
"""Documents that a session and its branches keep, each of at most 2 MiB."""
_NAME = "app.html"
# Rows have the texts of files.
_PAGE = 20


class KeptUiResources:
    def __init__(self, store: Store, session: SessionRecord) -> None:
        self._store = store
        self._session = session
        self._keeping = asyncio.Lock()

    async def keep(self, html: str) -> str | None:
        """The URL of the document, which the session keeps once; None if it can't be kept, with a line."""
        content = html.encode("utf-8", "replace")
        digest = sha256(content).hexdigest()
        # Not that of the content alone: branches, which share their attachments, may run at the same time.
        attachment_id = sha256(f"{self._session.id} {digest}".encode()).hexdigest()[:32]
        try:
            async with self._keeping:
                if not await self._store.get_attachments([attachment_id]):
                    await self._require_room()
                    await self._add(attachment_id, content, digest)
        except Exception as error:
            # Whatever this is, the tool has its result, and it is shown without.
            log.warning("UI resource not kept", extra={"session_id": self._session.id, "reason": type_of(error)})
            return None
        return attachment_url(attachment_id)

    async def _require_room(self) -> None:
        """Raises LimitReached if the session and its branches keep MOST already."""
        kept, cursor = 0, ""
        while page := await self._store.page(ATTACHMENTS, cursor or None, _PAGE, session_id=self._session.family_id):
            kept += sum(each.mime == UI_RESOURCE for each in page)
            cursor = page[-1].id
        if kept >= MOST:
            raise LimitReached(f"A session keeps at most {MOST} documents of MCP servers.")

    async def _add(self, attachment_id: str, content: bytes, digest: str) -> None:
        attachment = AttachmentRecord(
            id=attachment_id,
            user_id=self._session.user_id,
            session_id=self._session.family_id,
            name=_NAME,
            mime=UI_RESOURCE,
            size=len(content),
            # Nothing that the person has attached: it leaves them their room.
            room=0,
            sha256=digest,
            created_at=self._store.now(),
        )
        await self._store.add_attachment(attachment, _whole(content), sys.maxsize)


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content
