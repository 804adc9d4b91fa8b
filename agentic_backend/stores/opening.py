"""Finds the store that a URL names, and opens it. No text from here holds the URL's credentials."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_backend.config.settings import MONGODB_SCHEMES, SQLITE_SCHEME, Settings
from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Store
from agentic_backend.stores.journal.file_journal import FileJournal
from agentic_backend.stores.journal.journal import Journal, JournalUnavailable
from agentic_backend.stores.journal.journaled_store import journaled
from agentic_backend.stores.observing import Observer, ignore
from agentic_backend.stores.schema import SchemaTooNew
from agentic_backend.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from agentic_backend.stores.mongo import MongoStore
    from agentic_backend.stores.mongo.driver import Driver

_FILE, _JOURNAL = "chat.sqlite3", "deletions"
# The parts of a MongoDB URL that hold no secret: its scheme, its hosts and its database.
_MONGODB_URL = re.compile(r"(?P<scheme>[a-z+]+://)([^@/?]*@)?(?P<place>[^@/?]+(/[^@/?]*)?)(\?[^@]*)?")


class CannotOpenStore(Exception):
    """The database can't be opened; the text says which database and why, for the console."""


def sqlite_file(url: str | None, directory: Path) -> Path | None:
    """The file that `url` names, or the file in `directory` if `url` is None. None for a MongoDB."""
    if url is None:
        return directory / _FILE
    if not url.startswith(SQLITE_SCHEME):
        return None
    return Path(url.removeprefix(SQLITE_SCHEME))


def shown(url: str) -> str:
    """A MongoDB URL without user, password and options, which may hold secrets."""
    match = _MONGODB_URL.fullmatch(url)
    return match["scheme"] + match["place"] if match else next(filter(url.startswith, MONGODB_SCHEMES), "") + "…"


async def open_store(settings: Settings, observe: Observer, suspect: Callable[[], None] = ignore) -> Store:
    """The store that the settings name, which notes its deletions in the journal that they name, if any.

    A SQLite one calls `suspect` at damaged pages. Raises CannotOpenStore.
    """
    try:
        journal = await open_journal(settings)
    except JournalUnavailable as error:
        raise CannotOpenStore(f"deletions.journal: {error}") from error
    try:
        store = await open_plain_store(settings, observe, suspect)
    except BaseException:
        if journal is not None:
            await journal.aclose()
        raise
    return store if journal is None else journaled(store, journal)


async def open_plain_store(settings: Settings, observe: Observer, suspect: Callable[[], None] = ignore) -> Store:
    """The same without a journal. Raises CannotOpenStore."""
    file = sqlite_file(settings.store.url, settings.data.directory)
    if file is not None:
        timeout_s, shared = settings.store.timeout_s, settings.server.workers > 1
        return await open_sqlite(file, timeout_s, observe, suspect, shared=shared)
    assert settings.store.url is not None
    return await open_mongodb(settings.store.url, settings.store.driver, settings.store.timeout_s, observe)


async def open_sqlite(
    file: Path,
    timeout_s: float,
    observe: Observer | None = None,
    suspect: Callable[[], None] = ignore,
    *,
    shared: bool = False,
) -> SqliteStore:
    """`shared` with other workers. Raises CannotOpenStore."""
    try:
        return await SqliteStore.open(file, timeout_s=timeout_s, shared=shared, observe=observe, suspect=suspect)
    except (StoreUnavailable, SchemaTooNew) as error:
        raise CannotOpenStore(f"{file.parent}: {error.__cause__ or error}") from error


async def open_mongodb(url: str, driver: "Driver", timeout_s: float, observe: Observer | None = None) -> "MongoStore":
    """Raises CannotOpenStore."""
    # Its driver's modules are many, and most servers need none of them.
    from agentic_backend.stores.mongo import MongoStore
    from agentic_backend.stores.mongo.driver import reason_of

    try:
        return await MongoStore.open(url, driver=driver, timeout_s=timeout_s, observe=observe)
    except StoreUnavailable as error:
        raise CannotOpenStore(f"{shown(url)}: {reason_of(error.__cause__)}") from None
    except SchemaTooNew as error:
        raise CannotOpenStore(f"{shown(url)}: {error}") from error
    except ImportError:
        raise CannotOpenStore("store.driver: motor is not installed; agentic-backend[motor] brings it") from None


async def open_journal(settings: Settings) -> Journal | None:
    """None if deletions are not noted. Raises JournalUnavailable."""
    place, timeout_s = settings.deletions.journal, settings.store.timeout_s
    if place is None:
        return None
    if place == "auto":
        file = sqlite_file(settings.store.url, settings.data.directory)
        return None if file is None else FileJournal(file.parent / _JOURNAL, timeout_s)
    if not place.startswith(MONGODB_SCHEMES):
        return FileJournal(Path(place), timeout_s)
    from agentic_backend.stores.journal.mongo_journal import MongoJournal
    from agentic_backend.stores.mongo.driver import MongoDriver, reason_of

    try:
        driver = await MongoDriver.open(place, driver="pymongo", timeout_s=timeout_s, observe=None)
    except StoreUnavailable as error:
        raise JournalUnavailable(f"{shown(place)}: {reason_of(error.__cause__)}") from None
    return MongoJournal(driver, shown(place))
