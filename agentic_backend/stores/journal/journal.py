"""Journal: where deletions are noted before they are done, and read when a backup is back."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Protocol

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.journal.deletion import Deletion


class JournalUnavailable(Exception):
    """The journal can't be opened or read; the text says which and why, for the console."""


def not_noted() -> StoreUnavailable:
    """The error of a deletion that can't be noted, and so is not done."""
    return StoreUnavailable("The deletion can't be noted in the journal, so nothing was deleted; try again later.")


class Journal(Protocol):
    """The deletions of all instances that share it."""

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        ...

    async def journal_id(self) -> str | None:
        """By which databases know it; None as long as nothing was noted. Raises JournalUnavailable."""
        ...

    async def append(self, deletions: Sequence[Deletion]) -> None:
        """Note them; they outlive a loss of power.

        Raises StoreUnavailable; after a timeout they may be noted, else they are not.
        """
        ...

    async def prove(self) -> None:
        """Show that deletions can be noted. Raises StoreUnavailable."""
        ...

    def batches(self, since: datetime | None) -> AsyncIterator[Sequence[Deletion]]:
        """All from `since` on, in any order, and perhaps some before it. Raises JournalUnavailable."""
        ...

    async def check(self) -> None:
        """Raises JournalUnavailable if deletions can't be noted, as far as that is seen without making anything."""
        ...

    async def prune(self, before: datetime) -> None:
        """Forget those from before, as far as that is easy."""
        ...

    async def aclose(self) -> None: ...
