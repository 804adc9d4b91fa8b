"""All of a user's rows, for their export and their deletion."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol, TypeVar

from agentic_backend.stores.records import JournalMark, UserDeletion
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import Table

R = TypeVar("R")

HIDDEN = "deleted:"
"""So begins the `user_id` of usage records that are left for budgets once their user's data are deleted."""
HIDDEN_END = "deleted;"
"""Behind all that begin so."""
LEFT_OF_USAGE: Mapping[str, str | None] = {
    **dict.fromkeys(("session_id", "exchange_id", "agent_id", "input_tokens", "output_tokens", "priced_on")),
    "estimated": None,
    "model": "unknown",
    "purpose": "internal",
}
"""The columns of these records that no longer say what was done."""


def hidden_name(user_id: str) -> str:
    """The same for the same user, so that their budget still finds what they have spent."""
    return HIDDEN + sha256(user_id.encode(errors="surrogatepass")).hexdigest()


def midnight_of(day: str) -> str:
    """The begin of a `day` as the column `at` has it."""
    return rfc3339(datetime.fromisoformat(day).replace(tzinfo=UTC))


class UserStore(Protocol):
    """The operations of a Store on all of a user's rows."""

    async def page(
        self,
        table: Table[R],
        after: str | int | None,
        limit: int,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> list[R]:
        """At most `limit` rows behind `after` in the table's order: all, or those of this session or this user."""
        ...

    async def state_after(self, session_id: str, rank: int) -> tuple[int, bytes] | None:
        """The rank and the bytes of the session's first state above `rank`."""
        ...

    async def sessions_to_delete(self, user_id: str, limit: int) -> list[str]:
        """The ids of at most `limit` sessions that are the user's, begun or half deleted ones too.

        A half deleted session doesn't say whose it was, so those of all users are among them.
        """
        ...

    async def delete_user_rows(self, table: Table[Any], user_id: str, limit: int, up_to: datetime | None = None) -> int:
        """Delete at most `limit` of the user's rows of a table that has a `user`; how many there were.

        With `up_to`, only rows that were last written then or before; the table must have a time (see `written_at`).

        Rows of sessions go with their session, which must be deleted before.
        """
        ...

    async def hide_usage(
        self, user_id: str, hidden: str, since: datetime, limit: int, up_to: datetime | None = None
    ) -> int:
        """Leave what budgets need of at most `limit` usage records of the user, from `since` on; how many there were.

        With `up_to`, only records of that time or before.

        That is the day, the group and the cost, as a record of `hidden` (see `hidden_name`).
        """
        ...

    async def delete_hidden_usage(self, before: datetime, limit: int) -> int:
        """Delete at most `limit` such records of a time before this one; how many there were."""
        ...

    async def keep_deletion(self, deletion: UserDeletion) -> None:
        """Store that the user's data are being deleted; it replaces an earlier deletion."""
        ...

    async def deletions(self, limit: int = 1_000) -> list[UserDeletion]: ...

    async def end_deletion(self, deletion: UserDeletion) -> None:
        """Remove the deletion, unless a later one has replaced it."""
        ...

    async def prove_deletion(self) -> None:
        """Raises StoreUnavailable if deletions can't be noted, where they are (see journal)."""
        ...

    async def journal_marks(self) -> list[JournalMark]: ...

    async def keep_journal_mark(self, mark: JournalMark, oldest: datetime) -> None:
        """Store how far a journal is done, instead of its mark before, and forget marks from before `oldest`."""
        ...

    async def erase(self) -> None:
        """Take what was deleted out of the database's file too.

        Raises StoreUnavailable if that exceeds the timeout of an operation; nothing has changed then. A database that
        is a server of its own manages its files itself.
        """
        ...
