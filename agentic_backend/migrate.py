"""`agentic-backend migrate`: copies a SQLite file into a MongoDB, shows the progress, and compares the counts."""

import asyncio
import sys
from pathlib import Path

from agentic_backend.config.settings import MONGODB_SCHEMES, SQLITE_SCHEME
from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.opening import CannotOpenStore, open_mongodb, open_sqlite, sqlite_file
from agentic_backend.stores.private_files import sole_use
from agentic_backend.stores.transfer import Counts, Transferred, transfer

# The longest time for an operation, in seconds. It is long, because no client waits.
_TIMEOUT_S = 60
_OPEN_S = 5


def migrate(source: str, target: str) -> int:
    """Copy; return the exit status: 0, 1 if not everything was copied, 2 if the URLs are wrong."""
    file = sqlite_file(source, Path())
    if file is None or not target.startswith(MONGODB_SCHEMES):
        print(f"migrate goes from {SQLITE_SCHEME}FILE to {' or '.join(MONGODB_SCHEMES)}…", file=sys.stderr)
        return 2
    try:
        if not file.is_file():
            raise CannotOpenStore(f"{file}: there is no such file")
        with sole_use(file.parent):
            done = asyncio.run(_migrate(file, target))
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}")
    except CannotOpenStore as error:
        return _failed(error)
    except StoreUnavailable as error:
        # Both stores log the error's type and the operation.
        return _failed(f"a database stopped answering ({type(error.__cause__).__name__}); run it again")
    return _told(done)


async def _migrate(file: Path, target_url: str) -> Transferred:
    # Report an unreachable target soon; later operations have more time.
    await (await open_mongodb(target_url, "pymongo", _OPEN_S)).aclose()
    source = await open_sqlite(file, _TIMEOUT_S)
    try:
        target = await open_mongodb(target_url, "pymongo", _TIMEOUT_S)
        try:
            return await transfer(source, target, _report)
        finally:
            await target.aclose()
    finally:
        await source.aclose()


def _report(there: Counts, total: Counts) -> None:
    print(f"{there}  of  {total}", file=sys.stderr, flush=True)


def _told(done: Transferred) -> int:
    for session_id in done.left_alone:
        print(f"left alone, for it has gone on in the target: session {session_id}", file=sys.stderr)
    print(f"found:  {done.found}")
    print(f"copied: {done.there}")
    if not done.is_whole:
        return _failed("the counts differ; run it again")
    return 0


def _failed(reason: object) -> int:
    print(f"not everything is copied: {reason}", file=sys.stderr)
    return 1
