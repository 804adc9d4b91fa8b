"""Deletes a session, and dies by SIGKILL before the database has heard of it: `FILE JOURNAL SESSION`.

With `again` instead of a session, it does again what the journal says, and dies before the second session.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from agentic_backend.stores.journal.file_journal import FileJournal
from agentic_backend.stores.journal.journaled_store import JournaledStore
from agentic_backend.stores.journal.upkeep import JournalUpkeep
from agentic_backend.stores.sqlite import SqliteStore


async def main(file: Path, journal: Path, session_id: str) -> None:
    store = await SqliteStore.open(file, timeout_s=10)
    delete, left = store.delete_session, 1 if session_id == "again" else 0

    async def dying(deleted_id: str) -> list[str]:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return await delete(deleted_id)

    store.delete_session = dying  # type: ignore[method-assign]
    journaled = JournaledStore(store, FileJournal(journal, 10))
    if session_id == "again":
        await JournalUpkeep(journaled, 400, lambda: None).catch_up()
    else:
        await journaled.delete_session(session_id)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
