"""Branches in SQLite."""

import sqlite3
from dataclasses import replace

from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.protocol.trail import SummaryRecord
from agentic_backend.stores.records import ExchangeRecord, SessionRecord
from agentic_backend.stores.sqlite.operation_base import Part, count, first, insert, lists, reads, writes
from agentic_backend.stores.sqlite.sessions.sessions import family_of, session_with
from agentic_backend.stores.sqlite.sessions.trail import put_trail
from agentic_backend.stores.tables import EXCHANGES, SESSIONS

_COPY_STATE = """
    INSERT INTO session_states (session_id, rank, exchange_id, state)
    SELECT :branch, rank, exchange_id, state FROM session_states
    WHERE session_id = :parent AND rank > :above AND rank <= :rank ORDER BY rank DESC LIMIT 1
"""


def count_below(db: sqlite3.Connection, session: SessionRecord, rank: int, condition: str = "true") -> int:
    """The number of the session's exchanges that begin below `rank`, shared ones too."""
    below = f"exchanges WHERE session_id = ? AND first_rank >= ? AND first_rank < ? AND {condition}"
    spans = [span for span in spans_of(session) if span.from_rank < rank]
    return sum(count(db, below, [span.session_id, span.from_rank, min(rank, span.below_rank)]) for span in spans)


class Branches(Part):
    @writes
    def fork_session(
        self, db: sqlite3.Connection, branch: SessionRecord, summary: SummaryRecord | None
    ) -> SessionRecord | None:
        parent = branch.lineage[-1]
        if session_with(db, parent.session_id) is None:
            return None
        begun = replace(branch, turn_count=count_below(db, branch, branch.next_rank))
        insert(db, SESSIONS, [begun])
        above = -1 if branch.reset_rank is None else branch.reset_rank
        copied = {"branch": branch.id, "parent": parent.session_id, "rank": parent.rank, "above": above}
        db.execute(_COPY_STATE, copied)
        put_trail(db, [] if summary is None else [summary])
        return begun

    @lists
    def family(self, db: sqlite3.Connection, root_id: str) -> list[SessionRecord]:
        return family_of(db, root_id)

    @reads
    def exchange_at(self, db: sqlite3.Connection, session: SessionRecord, rank: int) -> ExchangeRecord | None:
        for span in spans_of(session):
            if span.from_rank <= rank < span.below_rank:
                return first(db, EXCHANGES, "session_id = ? AND first_rank = ?", (span.session_id, rank))
        return None
