"""Attachments: the files that users upload. Their rows are a table, their contents are stored beside it: in GridFS, or
in a directory of files beside SQLite.

A row is there before its content and until after it, and it is `kept` only in between. So a process that dies leaves no
content that no row names, and what it leaves is found by the row's state.
"""

from collections.abc import AsyncIterator, Collection
from datetime import datetime
from typing import Protocol

from agentic_backend.stores.records import AttachmentRecord


class AttachmentStore(Protocol):
    """The operations of a Store on attachments."""

    async def add_attachment(
        self, attachment: AttachmentRecord, content: AsyncIterator[bytes], most_bytes: int
    ) -> AttachmentRecord:
        """Store a new attachment, piece by piece; it is kept once this returns.

        Raises LimitReached if the user's attachments would take more than `most_bytes` together. Whatever this raises,
        nothing is left, or `stale_attachments` finds it.
        """
        ...

    async def get_attachments(self, ids: Collection[str]) -> list[AttachmentRecord]:
        """Those of `ids` that are kept, in any order."""
        ...

    def attachment_content(self, attachment_id: str) -> AsyncIterator[bytes]:
        """The content, piece by piece. Raises AttachmentNotFound."""
        ...

    async def attach(self, ids: Collection[str], user_id: str, session_id: str) -> list[str]:
        """Make the user's attachments the session's; return those that were not yet. All or none of them become so.

        Raises AttachmentNotFound if one is not kept, is another user's, or was sent in another session.
        """
        ...

    async def detach(self, ids: Collection[str], session_id: str) -> None:
        """Take back an `attach`: they have not been sent after all."""
        ...

    async def stale_attachments(self, unsent: datetime, unfinished: datetime, limit: int) -> list[str]:
        """The ids of at most `limit` attachments that were not sent and are older than `unsent`, or that are not kept
        and are older than `unfinished`.
        """
        ...

    async def remove_attachments(self, ids: Collection[str], *, only_unsent: bool = False) -> list[str]:
        """Delete these, or those of them that were not sent; return their ids."""
        ...

    async def forget_contents(self, ids: Collection[str]) -> None:
        """Delete the contents of attachments that have no rows, or whose rows are deleted."""
        ...


def of_all_attachments(most_bytes: int) -> str:
    """What to tell a user whose attachments would take more."""
    return f"Your attachments may take {most_bytes:,} bytes together; delete sessions that have some first."
