"""Negotiation: the application in which people rehearse hard conversations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from agentic_backend.application import (
    Application,
    ApplicationSettings,
    BadFrame,
    Call,
    Kind,
    LimitReached,
    NotFound,
    OwnRecords,
    RecordConflict,
    SessionNotFound,
    Stored,
    User,
)
from agentic_backend.applications.negotiation.case.patches import PatchRefused, patched
from agentic_backend.applications.negotiation.packs.pack import SHIPPED, Pack, Template, read_packs
from agentic_backend.applications.negotiation.records import EVENTS, CaseEvent, key_of
from agentic_backend.applications.negotiation.views import (
    Answer,
    CaseView,
    EventPage,
    EventsAsked,
    NewCase,
    Packs,
    Patch,
    Return,
    event_view,
    pack_view,
    question_view,
)

_CASE = "/sessions/{session}/case"


class NegotiationSettings(ApplicationSettings):
    packs: list[Path] = Field(default=[], max_length=100)
    """Files of packs beside those that come with the application."""


class Negotiation(Application):
    """Rehearsal of hard conversations."""

    id = "negotiation"
    title = "Negotiation"
    version = "0.1.0"
    Settings = NegotiationSettings
    records: ClassVar[Sequence[Kind[Any]]] = (EVENTS,)

    def __init__(self, settings: NegotiationSettings) -> None:
        """Raises ConfigError if a pack is wrong."""
        super().__init__(settings)
        self._packs = read_packs([*sorted(SHIPPED.glob("*.yaml")), *settings.packs])

    def calls(self) -> Sequence[Call]:
        written = [NotFound, SessionNotFound, BadFrame, RecordConflict, LimitReached]
        return [
            Call("GET", "/packs", self.list_packs),
            Call("PUT", _CASE, self.begin_case, errors=written),
            Call("GET", _CASE, self.get_case, errors=[NotFound, SessionNotFound]),
            Call("POST", f"{_CASE}/answers", self.answer_question, errors=written),
            Call("POST", f"{_CASE}/patches", self.patch_case, errors=written),
            Call("POST", f"{_CASE}/returns", self.return_to, errors=written),
            Call("GET", f"{_CASE}/events", self.list_events, errors=[SessionNotFound]),
        ]

    async def list_packs(self, user: User) -> Packs:
        """The packs, each with its templates."""
        return Packs(packs=[pack_view(pack) for pack in self._packs.values()])

    async def begin_case(self, user: User, session: str, body: NewCase) -> CaseView:
        """Begin the session's case, or begin it anew; what was before stays in its events."""
        pack, template = self._template(body.domain, body.template)
        last = await self._last(user, session)
        ordinal = 0 if last is None else last.value.ordinal + 1
        return await self._add(
            user,
            session,
            CaseEvent(
                ordinal=ordinal,
                type="case_begun",
                snapshot=pack.begun(template, body.channel),
                pack_version=pack.manifest.version,
            ),
        )

    async def get_case(self, user: User, session: str) -> CaseView:
        """The session's case as it is now, and the questions that are open."""
        return self._view(await self._case(user, session))

    async def answer_question(self, user: User, session: str, body: Answer) -> CaseView:
        """Answer a question of the template, or answer it otherwise than before."""
        event = await self._case(user, session)
        _, template = self._template(event.snapshot.domain, event.snapshot.template)
        if all(slot.id != body.slot for slot in template.slots):
            raise NotFound("The template has no such question.")
        operation = {"op": "add", "path": f"/slots/{body.slot}", "value": body.text}
        return await self._patch(user, session, event, [operation])

    async def patch_case(self, user: User, session: str, body: Patch) -> CaseView:
        """Change the case by a JSON patch, whole or not at all."""
        return await self._patch(user, session, await self._case(user, session), body.operations)

    async def return_to(self, user: User, session: str, body: Return) -> CaseView:
        """Go back to the case as it was after an event, which is an event too."""
        last = await self._case(user, session)
        found = await self._events(user, session).get(key_of(body.ordinal))
        if found is None:
            raise NotFound("There is no such event.")
        before = found.value
        return await self._add(
            user,
            session,
            CaseEvent(
                ordinal=last.ordinal + 1,
                type="case_returned",
                snapshot=before.snapshot,
                pack_version=before.pack_version,
                returned_to=before.ordinal,
            ),
        )

    async def list_events(self, user: User, session: str, query: EventsAsked) -> EventPage:
        """What has happened to the session's case, from the first event on."""
        page = await self._events(user, session).find("by_ordinal", limit=query.limit, cursor=query.cursor)
        return EventPage(events=[event_view(each.value) for each in page.records], next_cursor=page.next_cursor)

    async def _patch(self, user: User, session: str, event: CaseEvent, operations: list[dict[str, Any]]) -> CaseView:
        pack, _ = self._template(event.snapshot.domain, event.snapshot.template)
        try:
            snapshot = patched(event.snapshot, operations)
        except PatchRefused as refused:
            raise BadFrame(f"The patch is refused: {refused}.") from None
        return await self._add(
            user,
            session,
            CaseEvent(
                ordinal=event.ordinal + 1,
                type="snapshot_patched",
                snapshot=snapshot,
                pack_version=pack.manifest.version,
                operations=operations,
            ),
        )

    async def _add(self, user: User, session: str, event: CaseEvent) -> CaseView:
        # Its key is its ordinal: of two writers that have read the same last event, one is refused.
        await self._events(user, session).add(event, key_of(event.ordinal))
        return self._view(event)

    async def _case(self, user: User, session: str) -> CaseEvent:
        """Raises NotFound."""
        last = await self._last(user, session)
        if last is None:
            raise NotFound("No case has begun in this session.")
        return last.value

    async def _last(self, user: User, session: str) -> Stored[CaseEvent] | None:
        page = await self._events(user, session).find("by_ordinal", descending=True, limit=1)
        return page.records[0] if page.records else None

    def _events(self, user: User, session: str) -> OwnRecords[CaseEvent]:
        return self.records_of(EVENTS).of_session(user.id, session)

    def _template(self, domain: str, template_id: str) -> tuple[Pack, Template]:
        """Raises NotFound, also where a pack that a case began with is gone."""
        pack = self._packs.get(domain)
        template = None if pack is None else pack.template(template_id)
        if pack is None or template is None:
            raise NotFound("There is no such template.")
        return pack, template

    def _view(self, event: CaseEvent) -> CaseView:
        snapshot = event.snapshot
        _, template = self._template(snapshot.domain, snapshot.template)
        left = [slot for slot in template.slots if slot.id not in snapshot.slots]
        left.sort(key=lambda slot: not slot.required)
        questions = [question_view(slot) for slot in left]
        return CaseView(ordinal=event.ordinal, snapshot=snapshot, questions=questions)
