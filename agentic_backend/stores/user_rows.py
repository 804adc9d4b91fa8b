"""All of a user's rows, for their export and their deletion."""

from typing import Any, Protocol, TypeVar

from agentic_backend.stores.records import UserDeletion
from agentic_backend.stores.tables import Table

R = TypeVar("R")


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

    async def delete_user_rows(self, table: Table[Any], user_id: str, limit: int) -> int:
        """Delete at most `limit` of the user's rows of a table that has a `user`; how many there were.

        Rows of sessions go with their session, which must be deleted before.
        """
        ...

    async def keep_deletion(self, deletion: UserDeletion) -> None:
        """Store that the user's data are being deleted; it replaces an earlier deletion."""
        ...

    async def deletions(self, limit: int = 1_000) -> list[UserDeletion]: ...

    async def end_deletion(self, deletion: UserDeletion) -> None:
        """Remove the deletion, unless a later one has replaced it."""
        ...

    async def erase(self) -> None:
        """Take what was deleted out of the database's file too.

        Raises StoreUnavailable if that exceeds the timeout of an operation; nothing has changed then. A database that
        is a server of its own manages its files itself.
        """
        ...
