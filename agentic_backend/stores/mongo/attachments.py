"""Attachments in MongoDB: rows in a collection, contents in GridFS (the bucket `attachments`).

The contents are written as GridFS's specification says, so that any driver reads them, but not by a driver: PyMongo's
holds up to 32 MB of a file in memory and has one deadline for all of it, and motor has a class of its own. Here each
chunk is an operation of its own.
"""

from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime

from bson import Binary, Int64

from agentic_backend.errors import AttachmentNotFound, LimitReached
from agentic_backend.stores.attachment_steps import AttachmentSteps
from agentic_backend.stores.mongo.documents import Database, Document, document, record_in
from agentic_backend.stores.mongo.driver import aggregated
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.protocol.attachments import of_all_attachments
from agentic_backend.stores.records import AttachmentRecord, AttachmentState
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import ATTACHMENTS

FILES, CHUNKS = "attachments.files", "attachments.chunks"
_CHUNK = 255 * 1024
_KEPT: Document = {"state": AttachmentState.KEPT.value}
_UNKEPT: Document = {"state": {"$in": [AttachmentState.WRITTEN.value, AttachmentState.REMOVED.value]}}


class Attachments(AttachmentSteps, Part):
    @operation
    async def get_attachments(self, database: Database, ids: Collection[str]) -> list[AttachmentRecord]:
        found = database["attachments"].find({"_id": {"$in": list(ids)}} | _KEPT)
        return [record_in(ATTACHMENTS, row) for row in await found.to_list(None)]

    async def attachment_content(self, attachment_id: str) -> AsyncIterator[bytes]:
        length, number = await self._content_length(attachment_id), 0
        while length > 0:
            piece = await self._chunk(attachment_id, number)
            yield piece
            length, number = length - len(piece), number + 1

    async def put_content(self, attachment_id: str, name: str, content: AsyncIterator[bytes]) -> None:
        """Store the content in place of what an earlier attempt has left."""
        await self._drop_contents([attachment_id])
        buffer, number, length = bytearray(), 0, 0
        async for piece in content:
            buffer += piece
            while len(buffer) >= _CHUNK:
                await self._add_chunk(attachment_id, number, bytes(buffer[:_CHUNK]))
                del buffer[:_CHUNK]
                number, length = number + 1, length + _CHUNK
        if buffer:
            await self._add_chunk(attachment_id, number, bytes(buffer))
        await self._add_file(attachment_id, name, length + len(buffer))

    async def attach(self, ids: Collection[str], user_id: str, session_id: str) -> list[str]:
        new: list[str] = []
        async with self.turn(user_id):
            for attachment_id in ids:
                was = await self._attach_one(attachment_id, user_id, session_id)
                if was == "new":
                    new.append(attachment_id)
                elif was != "attached":
                    await self.detach(new, session_id)
                    raise AttachmentNotFound
        return new

    @operation
    async def detach(self, database: Database, ids: Collection[str], session_id: str) -> None:
        among = {"_id": {"$in": list(ids)}, "session_id": session_id}
        await database["attachments"].update_many(among, {"$set": {"session_id": None}})

    @operation
    async def stale_attachments(
        self, database: Database, unsent: datetime, unfinished: datetime, limit: int
    ) -> list[str]:
        conditions = {
            "$or": [
                _KEPT | {"session_id": None, "created_at": {"$lt": rfc3339(unsent)}},
                _UNKEPT | {"created_at": {"$lt": rfc3339(unfinished)}},
            ]
        }
        found = database["attachments"].find(conditions, {"_id": 1}).limit(limit)
        return [row["_id"] for row in await found.to_list(None)]

    @operation
    async def _begin_attachment(self, database: Database, attachment: AttachmentRecord, most_bytes: int) -> None:
        # Before the sum, so that of several uploads at once none is left out of it.
        await database["attachments"].insert_one(document(ATTACHMENTS, attachment))
        of_user: list[Document] = [
            {"$match": {"user_id": attachment.user_id}},
            {"$group": {"_id": None, "room": {"$sum": "$room"}}},
        ]
        # None if all of theirs is being deleted; this one is then not found when it is kept.
        summed = await aggregated(database["attachments"], of_user)
        if sum(one["room"] for one in summed) > most_bytes:
            await database["attachments"].delete_one({"_id": attachment.id})
            raise LimitReached(of_all_attachments(most_bytes))

    async def _write_content(self, attachment: AttachmentRecord, content: AsyncIterator[bytes]) -> None:
        await self.put_content(attachment.id, attachment.name, content)

    @operation
    async def _keep_attachment(self, database: Database, attachment_id: str) -> None:
        written = {"_id": attachment_id, "state": AttachmentState.WRITTEN.value}
        if not (await database["attachments"].update_one(written, {"$set": _KEPT})).matched_count:
            raise AttachmentNotFound

    @operation
    async def _attach_one(self, database: Database, attachment_id: str, user_id: str, session_id: str) -> str | None:
        own = {"_id": attachment_id, "user_id": user_id} | _KEPT
        unsent = own | {"session_id": None}
        if (await database["attachments"].update_one(unsent, {"$set": {"session_id": session_id}})).modified_count:
            return "new"
        found = await database["attachments"].find_one(own | {"session_id": session_id}, {"_id": 1})
        return None if found is None else "attached"

    @operation
    async def _mark_removed(self, database: Database, ids: Collection[str], only_unsent: bool) -> list[str]:
        among: Document = {"_id": {"$in": list(ids)}}
        unsent: Document = {"$or": [{"session_id": None}, _UNKEPT]} if only_unsent else {}
        removed = {"state": AttachmentState.REMOVED.value}
        await database["attachments"].update_many(among | unsent, {"$set": removed})
        marked = database["attachments"].find(among | removed, {"_id": 1})
        return [row["_id"] for row in await marked.to_list(None)]

    @operation
    async def _delete_attachments(self, database: Database, ids: Collection[str]) -> None:
        await database["attachments"].delete_many({"_id": {"$in": list(ids)}})

    @operation
    async def _content_length(self, database: Database, attachment_id: str) -> int:
        found = await database[FILES].find_one({"_id": attachment_id})
        if found is None:
            raise AttachmentNotFound
        return int(found["length"])

    @operation
    async def _chunk(self, database: Database, attachment_id: str, number: int) -> bytes:
        found = await database[CHUNKS].find_one({"files_id": attachment_id, "n": number})
        if found is None:
            # It is being removed.
            raise AttachmentNotFound
        return bytes(found["data"])

    @operation
    async def _add_chunk(self, database: Database, attachment_id: str, number: int, data: bytes) -> None:
        await database[CHUNKS].insert_one({"files_id": attachment_id, "n": number, "data": Binary(data)})

    @operation
    async def _add_file(self, database: Database, attachment_id: str, name: str, length: int) -> None:
        file = {"_id": attachment_id, "filename": name, "chunkSize": _CHUNK}
        # GridFS's own time, which nothing here depends on.
        await database[FILES].insert_one(file | {"length": Int64(length), "uploadDate": datetime.now(UTC)})

    @operation
    async def _drop_contents(self, database: Database, ids: Collection[str]) -> None:
        among = {"$in": list(ids)}
        await database[FILES].delete_many({"_id": among})
        await database[CHUNKS].delete_many({"files_id": among})
