"""Checks the database that the settings name: opens it, looks at its schema's version, writes and removes a proof.

Nothing is migrated or made: a database that is not there yet stays away.
"""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.settings import Settings
from agentic_backend.stores.journal.journal import JournalUnavailable
from agentic_backend.stores.mongo.checking import check_database, kinds_in_database
from agentic_backend.stores.opening import CannotOpenStore, open_journal, sqlite_file
from agentic_backend.stores.sqlite.checking import check_file, is_up_to_date, kinds_in_file


async def check_store(settings: Settings, limit_s: float) -> str:
    """What was found, in words. Raises CheckFailed."""
    file = sqlite_file(settings.store.url, settings.data.directory)
    if file is not None:
        return await asyncio.to_thread(check_file, file, limit_s)
    assert settings.store.url is not None
    return await check_database(settings.store.url, settings.store.driver, limit_s)


async def stored_kinds(settings: Settings, limit_s: float) -> Mapping[str, int]:
    """The kinds of which applications have stored records, with their newest version. Raises CheckFailed."""
    file = sqlite_file(settings.store.url, settings.data.directory)
    if file is not None:
        return await asyncio.to_thread(kinds_in_file, file, limit_s)
    assert settings.store.url is not None
    return await kinds_in_database(settings.store.url, settings.store.driver, limit_s)


async def check_journal(settings: Settings) -> str:
    """Where deletions are noted, in words. Raises CheckFailed."""
    try:
        journal = await open_journal(settings)
        if journal is None:
            return "deletions are noted nowhere, so a restored backup has again what was deleted after it"
        async with aclosing(journal):
            await journal.check()
            return f"deletions are noted in {journal.place}"
    except JournalUnavailable as error:
        raise CheckFailed(str(error), "check deletions.journal, and who may write there") from error


def require_up_to_date(file: Path, limit_s: float) -> None:
    """For who only reads, beside a server that may be of an older release: opening an older file would migrate it.

    Blocks. Raises CannotOpenStore.
    """
    try:
        if not is_up_to_date(file, limit_s):
            raise CannotOpenStore(f"{file}: an older release has written it; use that release's command")
    except sqlite3.Error as error:
        raise CannotOpenStore(f"{file}: {error}") from error
