"""Attachments in SQLite: rows in the database, contents in files beside it."""

import sqlite3
from collections.abc import AsyncIterator, Collection
from datetime import datetime

from agentic_backend.errors import AttachmentNotFound, LimitReached
from agentic_backend.stores.attachment_steps import AttachmentSteps
from agentic_backend.stores.protocol.attachments import of_all_attachments
from agentic_backend.stores.records import AttachmentRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.attachment_files import AttachmentFiles
from agentic_backend.stores.sqlite.operation_base import Part, insert, lists, placeholders, reads, select, writes
from agentic_backend.stores.tables import ATTACHMENTS

_STALE = """state = 'kept' AND session_id IS NULL AND created_at < :unsent
    OR state IN ('written', 'removed') AND created_at < :unfinished LIMIT :limit"""


class Attachments(AttachmentSteps, Part):
    files: AttachmentFiles

    @writes
    def _begin_attachment(self, db: sqlite3.Connection, attachment: AttachmentRecord, most_bytes: int) -> None:
        of_user = "SELECT coalesce(sum(room), 0) FROM attachments WHERE user_id = ?"
        if db.execute(of_user, (attachment.user_id,)).fetchone()[0] + (attachment.room or 0) > most_bytes:
            raise LimitReached(of_all_attachments(most_bytes))
        insert(db, ATTACHMENTS, [attachment])

    @writes
    def _keep_attachment(self, db: sqlite3.Connection, attachment_id: str) -> None:
        kept = "UPDATE attachments SET state = 'kept' WHERE id = ? AND state = 'written'"
        if not db.execute(kept, (attachment_id,)).rowcount:
            raise AttachmentNotFound

    @reads
    def get_attachments(self, db: sqlite3.Connection, ids: Collection[str]) -> list[AttachmentRecord]:
        return select(db, ATTACHMENTS, f"id IN ({placeholders(ids)}) AND state = 'kept'", list(ids))

    def attachment_content(self, attachment_id: str) -> AsyncIterator[bytes]:
        return self.files.read(attachment_id)

    @writes
    def attach(self, db: sqlite3.Connection, ids: Collection[str], user_id: str, session_id: str) -> list[str]:
        among = f"id IN ({placeholders(ids)}) AND user_id = ? AND state = 'kept'"
        found = select(db, ATTACHMENTS, among, [*ids, user_id])
        if {each.id for each in found if each.session_id in (None, session_id)} != set(ids):
            raise AttachmentNotFound
        new = [each.id for each in found if each.session_id is None]
        db.execute(f"UPDATE attachments SET session_id = ? WHERE id IN ({placeholders(new)})", [session_id, *new])
        return new

    @writes
    def detach(self, db: sqlite3.Connection, ids: Collection[str], session_id: str) -> None:
        among = f"id IN ({placeholders(ids)}) AND session_id = ?"
        db.execute(f"UPDATE attachments SET session_id = NULL WHERE {among}", [*ids, session_id])

    @lists
    def stale_attachments(
        self, db: sqlite3.Connection, unsent: datetime, unfinished: datetime, limit: int
    ) -> list[str]:
        before = {"unsent": rfc3339(unsent), "unfinished": rfc3339(unfinished), "limit": limit}
        return [row["id"] for row in db.execute(f"SELECT id FROM attachments WHERE {_STALE}", before)]

    async def _write_content(self, attachment: AttachmentRecord, content: AsyncIterator[bytes]) -> None:
        await self.files.write(attachment.id, content)

    async def _drop_contents(self, ids: Collection[str]) -> None:
        await self.files.remove(ids)

    @writes
    def _mark_removed(self, db: sqlite3.Connection, ids: Collection[str], only_unsent: bool) -> list[str]:
        among = f"id IN ({placeholders(ids)}) AND (NOT ? OR session_id IS NULL OR state != 'kept')"
        marked = db.execute(f"UPDATE attachments SET state = 'removed' WHERE {among} RETURNING id", [*ids, only_unsent])
        return [row["id"] for row in marked]

    @writes
    def _delete_attachments(self, db: sqlite3.Connection, ids: Collection[str]) -> None:
        db.execute(f"DELETE FROM attachments WHERE id IN ({placeholders(ids)})", list(ids))
