"""Run as a process of its own, until it is killed: `endless_writer.py PATH` writes batch after batch.

Of each batch that the store has reported as written it prints the session's `next_rank`.
"""

import asyncio
import sys
from pathlib import Path

from agentic_backend.stores.sqlite import SqliteStore
from tests.stores.samples import a_session, an_end, answer, begin, fence_after

BATCH = 7


async def write(path: Path) -> None:
    store = await SqliteStore.open(path, timeout_s=10)
    session = a_session(id="session")
    await store.create_session(session)
    while True:
        fence = await begin(store, session)
        fence = fence_after(await store.append(fence, [answer("x" * 2000)] * BATCH), fence.exchange_id)
        written = await store.append(fence, [answer()], an_end(session_state=str(fence.next_rank + 1).encode()))
        print(written.session.next_rank, flush=True)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1])))
