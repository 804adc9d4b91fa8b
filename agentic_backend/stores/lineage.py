"""Lineage: which session has the rows of a branch, rank by rank.

A branch shares the rows of its ancestors below the ranks at which it and they were forked; none of them is copied. Its
record names all of them, so that no read follows a chain of sessions. A session is forked from the one that has the
last shared row, so the ranks of a lineage increase, and regenerating an answer over and over makes it no longer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agentic_backend.protocol.messages import Parent
from agentic_backend.stores.records import SessionRecord

LONGEST = 100
"""The most sessions that a branch descends from."""
LARGEST_FAMILY = 200
"""The most sessions with one root, which is one of them."""


@dataclass(frozen=True, slots=True)
class Span:
    """Ranks from `from_rank` up to, but without, `below_rank`, whose rows `session_id` has."""

    session_id: str
    from_rank: int
    below_rank: int


def spans_of(session: SessionRecord) -> list[Span]:
    """Where the session's rows are, by rank; the last span is its own, which may be empty."""
    spans, from_rank = [], 0
    for ancestor in session.lineage:
        if from_rank < ancestor.rank:
            spans.append(Span(ancestor.session_id, from_rank, ancestor.rank))
        from_rank = ancestor.rank
    return [*spans, Span(session.id, from_rank, session.next_rank)]


def spans_from(session: SessionRecord, rank: int) -> list[Span]:
    """Where the session's rows from `rank` on are; if there are none, its last row."""
    rank = min(rank, max(0, session.next_rank - 1))
    spans = [span for span in spans_of(session) if rank < span.below_rank]
    return [replace(span, from_rank=max(rank, span.from_rank)) for span in spans]


def lineage_at(session: SessionRecord, rank: int) -> list[Parent]:
    """The lineage of a branch that shares the session's rows below `rank`; the last one is its parent."""
    whole = [*session.lineage, Parent(session_id=session.id, rank=session.next_rank)]
    shared = [ancestor for ancestor in whole[:-1] if ancestor.rank < rank]
    return [*shared, whole[len(shared)].model_copy(update={"rank": rank})]


def descendants(session_id: str, family: Iterable[SessionRecord]) -> list[SessionRecord]:
    """The sessions of `family` that come from `session_id`: its branches, theirs, and so on."""
    return [one for one in family if any(ancestor.session_id == session_id for ancestor in one.lineage)]
