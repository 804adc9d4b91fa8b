"""Attachments: takes files that users upload, gives them to their asks, and removes them.

An attachment is its user's until it is sent; from then on it belongs to the session, and to all branches of it.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from hashlib import sha256
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from uuid import uuid4

from langgraph.pregel import Pregel

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.models.attached_images import takes_images
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.attachments.examining import Bounds, Examiner
from agentic_backend.attachments.kinds import IMAGES, TEXT
from agentic_backend.attachments.names import clean_name
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import AgenticError, AttachmentNotFound, AttachmentSent, BadFrame, StoreUnavailable
from agentic_backend.mcp import UI_RESOURCE
from agentic_backend.sessions.asking.ask_rate import AskRate
from agentic_backend.sessions.asking.attached import Attached, GivenFile
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.sessions.documents import Documents
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import AttachmentRecord
from agentic_backend.stores.tables import ATTACHMENTS

UNFINISHED_H = 1.0
"""The age, in hours, at which an upload that was not finished is taken for one of a dead process."""

_PIECE = 256 * 1024
_UPLOAD_WAIT_S = 30.0
# Rows have the texts of files.
_PAGE = 20


class Attachments:
    def __init__(self, store: Store, models: ChatModels, limits: LimitsSettings, documents: Documents) -> None:
        self._store = store
        self._models = models
        self._limits = limits
        self._documents = documents
        self._examiner = Examiner(Bounds(limits.attachment_text_chars, limits.attachment_pixels))
        self._rate = AskRate(limits.uploads_per_minute, asyncio.get_running_loop().time)
        self._at_once = Bulkhead(
            per_user=limits.uploads_per_user,
            in_all=None,
            wait_s=_UPLOAD_WAIT_S,
            content="Too many of your files are uploaded at once; wait until some are there.",
        )

    @asynccontextmanager
    async def uploading(self, user: User) -> AsyncIterator[None]:
        """Hold room for one upload of the user. Raises RateLimited."""
        self._rate.count(user.id)
        async with self._at_once.entered(user.id):
            yield

    async def add(self, user: User, name: str, file: BinaryIO) -> AttachmentRecord:
        """Keep `file`, one of the operating system, as an attachment.

        Raises BadFrame if it is of no kind that is taken, RateLimited and Overloaded if too many documents are read,
        LimitReached if the user has too much, and StoreUnavailable.
        """
        attachment = await self._examined(user, name, file)
        most = self._limits.attachments_per_user_bytes
        return await self._store.add_attachment(attachment, _pieces(file), most)

    async def _examined(self, user: User, name: str, file: BinaryIO) -> AttachmentRecord:
        whose = None if self._limits.uploads_per_user is None else user.id
        examined = await self._examiner.examine(file, name, partial(self._documents.read, whose=whose))
        return AttachmentRecord(
            id=uuid4().hex,
            user_id=user.id,
            name=clean_name(name),
            mime=examined.mime,
            size=examined.size,
            room=max(examined.size, len((examined.text or "").encode())),
            sha256=examined.sha256,
            created_at=self._store.now(),
            text=examined.text,
        )

    async def add_bytes(self, user: User, name: str, content: bytes) -> AttachmentRecord:
        """Keep a file that is in memory. Raises as `add`."""
        with await asyncio.to_thread(_file_with, content) as file:
            return await self.add(user, name, file)

    async def examined(self, user: User, name: str, content: bytes) -> GivenFile:
        """A file that comes with a query, which keeps none. Raises BadFrame, RateLimited and Overloaded, as `add`."""
        with await asyncio.to_thread(_file_with, content) as file:
            record = await self._examined(user, name, file)
        return GivenFile(record, content)

    async def add_text(self, user: User, name: str, text: str) -> AttachmentRecord:
        """Keep `text`, of no file of the user's, as an attachment. Raises LimitReached and StoreUnavailable."""
        content = text.encode()
        attachment = AttachmentRecord(
            id=uuid4().hex,
            user_id=user.id,
            name=clean_name(name),
            mime=TEXT,
            size=len(content),
            room=len(content),
            sha256=sha256(content).hexdigest(),
            created_at=self._store.now(),
            text=text,
        )
        return await self._store.add_attachment(attachment, _whole(content), self._limits.attachments_per_user_bytes)

    async def get(self, user: User, attachment_id: str) -> AttachmentRecord:
        """The user's attachment. Raises AttachmentNotFound if there is none or it is another user's."""
        for found in await self._store.get_attachments([attachment_id]):
            if found.user_id == user.id:
                return found
        raise AttachmentNotFound

    def content(self, attachment: AttachmentRecord) -> AsyncIterator[bytes]:
        return self._store.attachment_content(attachment.id)

    async def delete(self, user: User, attachment_id: str) -> None:
        """Delete what was not sent. Raises AttachmentNotFound, and AttachmentSent."""
        await self.get(user, attachment_id)
        if not await self._store.remove_attachments([attachment_id], only_unsent=True):
            raise AttachmentSent

    async def given_with(self, ids: Sequence[str], user: User, family_id: str, agent: CatalogAgent) -> Attached:
        """The files that the user attaches to an ask in a session of this family.

        Raises AttachmentNotFound, and BadFrame if the agent can't be given one of them.
        """
        if not ids:
            return Attached()
        own = {each.id: each for each in await self._store.get_attachments(ids) if each.user_id == user.id}
        for number, attachment_id in enumerate(ids):
            found = own.get(attachment_id)
            if found is None or found.session_id not in (None, family_id) or found.mime == UI_RESOURCE:
                raise AttachmentNotFound(f"attachments.{number}: there is no such attachment")
        return self.taken([own[attachment_id] for attachment_id in ids], agent)

    def taken(self, files: Sequence[AttachmentRecord], agent: CatalogAgent) -> Attached:
        """The files of an ask. Raises BadFrame if the agent can't be given one of them, or they are too much."""
        for number, found in enumerate(files):
            if found.mime in IMAGES and not self._takes_images(agent):
                content = f"attachments.{number}: {found.name!r} is an image, and the agent's model takes none"
                raise BadFrame(content)
        attached = Attached(files)
        if attached.characters > self._limits.attachment_text_chars:
            most = self._limits.attachment_text_chars
            content = f"attachments: the files have {attached.characters:,} characters; at most {most:,} are read"
            raise BadFrame(content)
        return attached

    @asynccontextmanager
    async def sent(self, ids: Sequence[str], user: User, family_id: str) -> AsyncIterator[None]:
        """Give the user's attachments to the session, in which an exchange begins inside.

        They are the user's again if it is refused. Raises AttachmentNotFound.
        """
        new = await self._store.attach(ids, user.id, family_id) if ids else []
        try:
            yield
        except StoreUnavailable:
            # The exchange may have begun; if not, the ask is sent again.
            raise
        except (AgenticError, ValueError):
            if new:
                await self._store.detach(new, family_id)
            raise

    async def remove_of_session(self, session_id: str) -> None:
        await self._remove_all(session_id=session_id)

    async def remove_of_user(self, user_id: str) -> None:
        await self._remove_all(user_id=user_id)

    async def remove_stale(self, limit: int) -> int:
        """Remove at most `limit` attachments that were not sent in time, or whose upload has never ended; how many."""
        now = self._store.now()
        unsent, unfinished = timedelta(hours=self._limits.attachment_unsent_h), timedelta(hours=UNFINISHED_H)
        ids = await self._store.stale_attachments(now - unsent, now - unfinished, limit)
        # What has been sent meanwhile stays.
        return len(await self._store.remove_attachments(ids, only_unsent=True))

    async def remove_unfinished(self) -> None:
        """Remove all uploads that have not ended: for an instance that is alone on its store, at its start."""
        now = self._store.now()
        while ids := await self._store.stale_attachments(now - timedelta(days=36_500), now, _PAGE):
            await self._store.remove_attachments(ids)

    async def _remove_all(self, **whose: Any) -> None:
        while page := await self._store.page(ATTACHMENTS, None, _PAGE, **whose):
            await self._store.remove_attachments([each.id for each in page])

    def _takes_images(self, agent: CatalogAgent) -> bool:
        """Whether the agent's model takes images. Of a graph that brings its own model, that is not known."""
        if isinstance(agent.target, Pregel) and agent.settings.model is None:
            return False
        return takes_images(self._models.get(agent.settings.model))


def _file_with(content: bytes) -> BinaryIO:
    """A file of the operating system, as examining needs one. Raises StoreUnavailable if the disk is full."""
    try:
        file = TemporaryFile()
    except OSError as error:
        raise StoreUnavailable from error
    try:
        file.write(content)
    except OSError as error:
        file.close()
        raise StoreUnavailable from error
    return file


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    await asyncio.to_thread(file.seek, 0)
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece
