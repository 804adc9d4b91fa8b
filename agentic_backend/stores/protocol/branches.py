"""BranchStore: sessions that share the beginning of others (see lineage)."""

from typing import Protocol

from agentic_backend.stores.protocol.trail import SummaryRecord
from agentic_backend.stores.records import ExchangeRecord, SessionRecord


class BranchStore(Protocol):
    """The operations of a Store on families of sessions: one that is no branch, and all that descend from it."""

    async def fork_session(self, branch: SessionRecord, summary: SummaryRecord | None) -> SessionRecord | None:
        """Store a new branch, which shares the rows of its lineage, in one step with what its agents start from.

        That is the state of its parent's graphs after those rows and above its `reset_rank`, which is copied, since the
        parent may go on and forget it; and `summary`, the branch's own. `turn_count` becomes the number of exchanges
        that it shares. None if its parent is deleted.
        """
        ...

    async def family(self, root_id: str) -> list[SessionRecord]:
        """The session and all sessions that descend from it, the oldest first; none if it is deleted."""
        ...

    async def exchange_at(self, session: SessionRecord, rank: int) -> ExchangeRecord | None:
        """The exchange of the session's transcript that begins at `rank`; None if none does."""
        ...
