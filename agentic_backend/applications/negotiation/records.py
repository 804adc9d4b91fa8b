"""What is stored of a case: the events of its session, each with the snapshot as it is after it.

The log is append-only, and an event's key is its ordinal, which only one writer gets. So the last event is the case,
and going back is an event too.
"""

from typing import Any, Literal

from pydantic import Field

from agentic_backend.application import Index, Kind, Record
from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot

EventType = Literal["case_begun", "snapshot_patched", "case_returned"]


class CaseEvent(Record):
    """Something that has happened to the case of a session."""

    ordinal: int
    """Its place in the session, from 0."""
    type: EventType
    snapshot: CaseSnapshot
    """As it is after the event."""
    pack_version: str
    """Of the pack when it happened."""
    operations: list[dict[str, Any]] = Field(default=[])
    """Of a `snapshot_patched`: the patch."""
    returned_to: int | None = None
    """Of a `case_returned`: the ordinal of the event after which the case was as it is now again."""


def key_of(ordinal: int) -> str:
    return f"{ordinal:06}"


EVENTS = Kind(
    "event",
    CaseEvent,
    owner="session",
    append_only=True,
    most=2_000,
    indexes={"by_ordinal": Index("ordinal")},
)
