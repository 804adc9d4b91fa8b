"""AttachmentSteps: the order in which a row of an attachment and its content come and go, the same in each store."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from dataclasses import replace

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.records import AttachmentRecord, AttachmentState


class AttachmentSteps(ABC):
    """The operations of `AttachmentStore` that take several steps, each of which a store has of its own."""

    async def add_attachment(
        self, attachment: AttachmentRecord, content: AsyncIterator[bytes], most_bytes: int
    ) -> AttachmentRecord:
        await self._begin_attachment(attachment, most_bytes)
        try:
            await self._write_content(attachment, content)
            await self._keep_attachment(attachment.id)
        except BaseException:
            with suppress(StoreUnavailable):
                await self._take_away([attachment.id])
            raise
        return replace(attachment, state=AttachmentState.KEPT)

    async def remove_attachments(self, ids: Collection[str], *, only_unsent: bool = False) -> list[str]:
        removed = await self._mark_removed(ids, only_unsent)
        await self._take_away(removed)
        return removed

    async def forget_contents(self, ids: Collection[str]) -> None:
        await self._drop_contents(ids)

    async def _take_away(self, ids: Collection[str]) -> None:
        await self._drop_contents(ids)
        await self._delete_attachments(ids)

    @abstractmethod
    async def _begin_attachment(self, attachment: AttachmentRecord, most_bytes: int) -> None: ...

    @abstractmethod
    async def _write_content(self, attachment: AttachmentRecord, content: AsyncIterator[bytes]) -> None: ...

    @abstractmethod
    async def _keep_attachment(self, attachment_id: str) -> None: ...

    @abstractmethod
    async def _mark_removed(self, ids: Collection[str], only_unsent: bool) -> list[str]: ...

    @abstractmethod
    async def _drop_contents(self, ids: Collection[str]) -> None: ...

    @abstractmethod
    async def _delete_attachments(self, ids: Collection[str]) -> None: ...
