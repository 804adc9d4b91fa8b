"""`agentic-backend migrate`: copies a SQLite file into a MongoDB or back, shows the progress, compares the counts."""

import asyncio
import logging
from contextlib import aclosing
from pathlib import Path

from agentic_backend.config.settings import MONGODB_SCHEMES, SQLITE_SCHEME
from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.opening import CannotOpenStore, open_mongodb, open_sqlite, sqlite_file
from agentic_backend.stores.private_files import private_directory, sole_use
from agentic_backend.stores.transfer import Counts, TargetOfOthers, Transferred, transfer
from agentic_backend.system_errors import reason_of

log = logging.getLogger(__name__)

# The longest time for an operation, in seconds. It is long, because no client waits.
_TIMEOUT_S = 60
_OPEN_S = 5


def migrate(source: str, target: str) -> int:
    """Copy; return the exit status: 0, 1 if not everything was copied, 2 if the URLs are wrong."""
    from_file, to_file = sqlite_file(source, Path()), sqlite_file(target, Path())
    file, database = (from_file, target) if from_file is not None else (to_file, source)
    if file is None or not database.startswith(MONGODB_SCHEMES):
        forms = f"{SQLITE_SCHEME}FILE to {' or '.join(MONGODB_SCHEMES)}…"
        log.error("configuration problem", extra={"problem": f"migrate goes from {forms}, or back"})
        return 2
    try:
        if file == from_file and not file.is_file():
            raise CannotOpenStore(f"{file}: there is no such file")
        if file == to_file:
            private_directory(file.parent)
        with sole_use(file.parent):
            done = asyncio.run(_migrate(file, database, is_back=file == to_file))
    except OSError as error:
        return _failed(reason_of(error))
    except CannotOpenStore as error:
        return _failed(error)
    except TargetOfOthers:
        return _failed("the target has other sessions; take an empty database, or the one that an earlier run began")
    except StoreUnavailable as error:
        # Both stores log the error's type and the operation.
        return _failed(f"a database stopped answering ({type(error.__cause__).__name__}); run it again")
    return _told(done)


async def _migrate(file: Path, url: str, *, is_back: bool) -> Transferred:
    # Report an unreachable database soon; later operations have more time.
    await (await open_mongodb(url, "pymongo", _OPEN_S)).aclose()
    async with (
        aclosing(await open_sqlite(file, _TIMEOUT_S)) as sqlite,
        aclosing(await open_mongodb(url, "pymongo", _TIMEOUT_S)) as mongodb,
    ):
        if is_back:
            return await transfer(mongodb, sqlite, _report)
        return await transfer(sqlite, mongodb, _report)


def _report(there: Counts, total: Counts) -> None:
    log.info("rows copied", extra={"copied": str(there), "found": str(total)})


def _told(done: Transferred) -> int:
    for session_id in done.left_alone:
        # At level info all lines about a session are written, however many there are.
        log.info("session left alone", extra={"session_id": session_id})
    print(f"found:  {done.found}")
    print(f"copied: {done.there}")
    if not done.is_whole:
        return _failed("the counts differ; run it again")
    return 0


def _failed(reason: object) -> int:
    log.error("not everything is copied", extra={"reason": str(reason)})
    return 1
