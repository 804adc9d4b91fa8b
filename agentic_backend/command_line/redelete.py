"""`agentic-backend redelete`: deletes again in a restored database what was deleted after its backup.

A server does that by itself when it starts; the command is for databases that no server is started on, and tells before
what would be done.
"""

import asyncio
import logging
from contextlib import aclosing, nullcontext
from datetime import UTC, datetime

from agentic_backend.config.settings import Settings
from agentic_backend.errors import StoreUnavailable
from agentic_backend.policy.usage.budgets import Budgets
from agentic_backend.stores.journal.journal import JournalUnavailable
from agentic_backend.stores.journal.journaled_store import JournaledStore
from agentic_backend.stores.journal.redeletion import Redeletion
from agentic_backend.stores.journal.upkeep import JournalUpkeep, place_of
from agentic_backend.stores.opening import CannotOpenStore, open_store, sqlite_file
from agentic_backend.stores.private_files import sole_use
from agentic_backend.system_errors import reason_of, summary_of

log = logging.getLogger(__name__)


def redelete(settings: Settings, since: datetime | None, *, dry_run: bool) -> int:
    """Do it and say what was done; return the exit status: 0, or 1 if it failed, after which it can be repeated."""
    try:
        file = sqlite_file(settings.store.url, settings.data.directory)
        if file is not None and not file.is_file():
            raise CannotOpenStore(f"{file}: there is no such file")
        with nullcontext() if file is None else sole_use(file.parent):
            told = asyncio.run(_redelete(settings, since, dry_run=dry_run))
    except OSError as error:
        return _failed(reason_of(error))
    except StoreUnavailable as error:
        return _failed(f"the database does not answer ({summary_of(error.__cause__ or error)}); run it again")
    except (CannotOpenStore, JournalUnavailable) as error:
        return _failed(error)
    print(told)
    return 0


async def _redelete(settings: Settings, since: datetime | None, *, dry_run: bool) -> str:
    async with aclosing(await open_store(settings, lambda *_: None)) as store:
        if not isinstance(store, JournaledStore):
            raise CannotOpenStore("deletions.journal: deletions are noted nowhere")
        plain, journal = store.store, store.journal
        counted_since = Budgets(plain, settings.budgets).counted_since
        place = await place_of(plain, journal)
        if since is None and not dry_run:
            done = await JournalUpkeep(store, settings.deletions.keep_days, counted_since).catch_up()
        else:
            begin = place.since if since is None else since
            done = await Redeletion(plain, journal, counted_since, dry_run=dry_run).run(begin)
        mark = "of no known time" if place.mark is None else f"of {place.mark.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        found = ", ".join(f"{count} {kind}" for kind, count in done.counts.items()) or "nothing"
        did = "would be deleted again" if dry_run else "deleted again"
        return f"{journal.place}: {done.looked_at} deletions looked at; the database is {mark}\n{did}: {found}"


def _failed(reason: object) -> int:
    log.error("deletions not done again", extra={"reason": str(reason)})
    return 1
