"""Chores: the work that is done in the background on what is stored, by one instance at a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from agentic_backend.protocol.messages import SessionState
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.tables import Table


@dataclass(frozen=True, slots=True)
class Waiting:
    """The exchanges of all users that wait for a person; `since` is when the oldest was asked, None if none waits."""

    count: int
    since: datetime | None


class ChoreStore(Protocol):
    """The operations of a Store for chores."""

    async def claim_chore(self, name: str, owner: str, for_s: float) -> bool:
        """Claim the chore for `for_s` seconds from now, or prolong the owner's claim. False if another one has it.

        A claim can be lost without notice, so a chore must do no harm if two instances do it at the same time.
        """
        ...

    async def waiting_exchanges(self) -> Waiting: ...

    async def idle_sessions(self, state: SessionState, before: datetime, limit: int) -> list[SessionRecord]:
        """At most `limit` sessions in which no exchange runs or waits, last updated before then, the oldest first."""
        ...

    async def idle_families(self, before: datetime, limit: int) -> list[SessionRecord]:
        """At most `limit` sessions that are no branches, last updated before then, the oldest first, like all that
        descend from them; in none of these an exchange runs or waits.
        """
        ...

    async def delete_old(self, table: Table[Any], before: datetime, limit: int) -> int:
        """Delete at most `limit` rows of a table that has a `time`, the oldest first, if they are older; how many."""
        ...

    async def index_texts(self, limit: int) -> int:
        """Do at most `limit` small writes on an index of messages' texts that searches use; how many. What isn't in it
        is found all the same. A database that has no such index does nothing.
        """
        ...
