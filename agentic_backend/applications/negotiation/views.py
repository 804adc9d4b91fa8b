"""What the calls of the application take and answer."""

from typing import Annotated, Any

from pydantic import Field

from agentic_backend.application import Frame, PageSize, Query, Value, absent
from agentic_backend.applications.negotiation.case.patches import MOST_OPERATIONS
from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot, Channel, Id, Line
from agentic_backend.applications.negotiation.packs.pack import Pack, Slot
from agentic_backend.applications.negotiation.records import CaseEvent, EventType


class TemplateView(Value):
    """A kind of case."""

    id: str
    title: str
    counterparty: str
    channel: Channel


class PackView(Value):
    """A pack, without its strategies, which are not shown."""

    id: str
    title: str
    version: str
    language: str
    licence: str
    templates: list[TemplateView]


class Packs(Value):
    """The packs of the server."""

    packs: list[PackView]


class NewCase(Frame):
    """A case to begin."""

    domain: Id
    template: Id
    channel: Channel | None = absent()
    """That of the template if it is left out."""


class QuestionView(Value):
    """A question that is open."""

    slot: str
    question: str
    required: bool


class CaseView(Value):
    """A case as it is now."""

    ordinal: int
    """Of its last event."""
    snapshot: CaseSnapshot
    questions: list[QuestionView]
    """Those that are open, the required ones first."""


class Answer(Frame):
    """An answer to a question of the template."""

    slot: Id
    text: Line


class Patch(Frame):
    """A JSON patch (RFC 6902) of the case."""

    operations: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_OPERATIONS)]


class Return(Frame):
    """Where to go back to."""

    ordinal: Annotated[int, Field(ge=0)]
    """Of the event after which the case was as it is to be again."""


class EventsAsked(Query):
    """Which events."""

    limit: Annotated[int, PageSize(200)] = 50
    cursor: str | None = None


class EventView(Value):
    """An event of a case."""

    ordinal: int
    type: EventType
    operations: list[dict[str, Any]]
    returned_to: int | None


class EventPage(Value):
    """Events in their order, and the cursor of the next page."""

    events: list[EventView]
    next_cursor: str | None


def pack_view(pack: Pack) -> PackView:
    manifest = pack.manifest
    templates = [
        TemplateView(id=each.id, title=each.title, counterparty=each.counterparty, channel=each.channel)
        for each in pack.templates
    ]
    return PackView(
        id=manifest.id,
        title=manifest.title,
        version=manifest.version,
        language=manifest.language,
        licence=manifest.licence,
        templates=templates,
    )


def question_view(slot: Slot) -> QuestionView:
    return QuestionView(slot=slot.id, question=slot.question, required=slot.required)


def event_view(event: CaseEvent) -> EventView:
    return EventView(ordinal=event.ordinal, type=event.type, operations=event.operations, returned_to=event.returned_to)
