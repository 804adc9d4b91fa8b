"""HostedRecords: the records of one application, brought to the versions and indexes that it declares, and kept so.

Its upgrades and models are the author's code: they run in calls of the author's.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from agentic_backend.agents.run.authors_calls import AuthorsCalls, CallFailed
from agentic_backend.errors import RecordConflict, SessionNotFound
from agentic_backend.records.layout import Layout, NewerRecord
from agentic_backend.records.records import rewritten
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import RecordWrite

_BATCH, _BATCH_S = 50, 30.0


class HostedRecords:
    def __init__(self, store: Store, application_id: str, layouts: Sequence[Layout[Any]], author: AuthorsCalls) -> None:
        self._store = store
        self._layouts = layouts
        self._author = author
        self._log_fields = {"application": application_id}

    async def open(self) -> None:
        """Bring what is stored to what is declared.

        Raises NewerRecord, StoreUnavailable, CallFailed if an upgrade or a model fails, and RecordConflict if two
        records have the same values in an index that is unique now; it is retryable while others write one.
        """
        if not self._layouts:
            return
        await self._store.open_application_records()
        newest = await self._store.application_record_kinds()
        for layout in self._layouts:
            if (version := newest.get(layout.id, 0)) > layout.kind.version:
                raise NewerRecord(layout.id, version, layout.kind.version)
            while layout.id in newest and await self._rewrite(layout, _BATCH):
                pass

    async def upkeep(self, limit: int) -> int:
        """Delete records whose time is over, and rewrite those that an older instance has written since; how many.

        Raises as `open` does, once all else is done.
        """
        done = 0
        failed: CallFailed | RecordConflict | None = None
        for layout in self._layouts:
            try:
                if done < limit:
                    done += await self._delete_old(layout, limit - done)
                if done < limit:
                    done += await self._rewrite(layout, limit - done)
            except (CallFailed, RecordConflict) as error:
                failed = error
        if failed is not None:
            raise failed
        return done

    async def _delete_old(self, layout: Layout[Any], limit: int) -> int:
        if layout.kind.keep_days is None:
            return 0
        before = self._store.now() - timedelta(days=layout.kind.keep_days)
        return await self._store.delete_application_records(layout.id, before, limit, of_session=layout.of_session)

    async def _rewrite(self, layout: Layout[Any], limit: int) -> int:
        """Rewrite at most `limit` records; how many. Raises a conflict once it has tried all of them."""
        kind = layout.kind
        rows = await self._store.outdated_application_records(
            layout.id, kind.version, layout.stamp, limit, of_session=layout.of_session
        )
        if not rows:
            return 0

        async def computed() -> list[RecordWrite]:
            return [rewritten(layout, row, self._store.now()) for row in rows]

        failed: RecordConflict | None = None
        for write in await self._author.result(computed, _BATCH_S, self._log_fields):
            try:
                await self._write(layout, write)
            except RecordConflict as error:
                failed = error
        if failed is not None:
            raise failed
        return len(rows)

    async def _write(self, layout: Layout[Any], write: RecordWrite) -> None:
        """Raises RecordConflict if the record is still as it was."""
        # One goes with its session, or somebody else has written it meanwhile.
        with suppress(SessionNotFound):
            try:
                await self._store.write_application_records([write])
            except RecordConflict as error:
                there = await self._store.get_application_records([write.record.id], of_session=layout.of_session)
                if there and (there[0].revision, there[0].created_at) == (write.expected, write.record.created_at):
                    said = f"Two records of kind {layout.id} have the same values in an index that is unique."
                    raise RecordConflict(None if error.retryable else said, retryable=error.retryable) from None
