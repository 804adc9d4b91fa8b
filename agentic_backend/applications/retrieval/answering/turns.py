"""Turns: what was done for the last answer of a conversation.

The texts of its passages are not kept: they are read again for whoever looks, as far as they are still there and theirs
to read.
"""

import json
import logging
from asyncio import gather
from collections.abc import Mapping, Sequence
from typing import Any

from agentic_backend.application import AgenticError, Application, Stored, User
from agentic_backend.applications.retrieval.answering.passages import Passage, span_text_of, text_of_both
from agentic_backend.applications.retrieval.documents import Documents
from agentic_backend.applications.retrieval.library import Library, is_readable
from agentic_backend.applications.retrieval.records import TURNS, Turn, TurnPassage
from agentic_backend.applications.retrieval.searching.retriever import is_there
from agentic_backend.applications.retrieval.shelves import Place, Shelf

log = logging.getLogger(__name__)


class Turns:
    def __init__(self, application: Application, library: Library, documents: Documents) -> None:
        self._application = application
        self._library = library
        self._documents = documents

    async def keep(self, place: Place, turn: Turn) -> None:
        """Store what was done for the latest answer of a conversation. No answer waits for that: never raises."""
        turns = self._application.records_of(TURNS).of_session(place.user_id, place.session_id or "")
        try:
            before = await turns.get("latest")
            await (turns.add(turn, "latest") if before is None else turns.change(before, turn))
        except AgenticError as error:
            # The session may have been deleted meanwhile.
            log.warning("turn not kept", extra={"session_id": place.session_id, "code": error.code})

    async def latest(self, user: User, session_id: str) -> tuple[Turn, dict[str, Any]] | None:
        """The latest, and what is told of it, whose passages have their texts: None where it may not be read now.

        Raises SessionNotFound.
        """
        found: Stored[Turn] | None = (
            await self._application.records_of(TURNS).of_session(user.id, session_id).get("latest")
        )
        if found is None:
            return None
        told: dict[str, Any] = json.loads(found.value.told)
        texts = await gather(*(self._text_of(user, each) for each in found.value.passages))
        for passage, text in zip(told["passages"], texts, strict=True):
            passage["text"] = text
        return found.value, told

    async def _text_of(self, user: User, passage: TurnPassage) -> str | None:
        place = Place(passage.user_id, passage.session_id)
        chunks = Shelf(self._application, place).chunks
        text: str | None = None
        for number in passage.numbers:
            found = await chunks.get(f"{passage.document}.{passage.edition}.{number}")
            if found is None:
                return None
            value = found.value
            span = span_text_of(value.text, value.start, value.end)
            text = value.text if text is None else text_of_both(text, span)
        # Behind the text, so that what was read was there, and theirs to read.
        document = await self._documents.get(place, passage.document)
        if document is None or not is_there(document, passage.edition):
            return None
        collection = await self._library.at(place, document.value.collection)
        return text if collection is not None and is_readable(user, collection) else None


def places_of(passages: Mapping[int, Passage]) -> Sequence[TurnPassage]:
    """Where the texts of these passages are."""
    return [
        TurnPassage(
            user_id=each.place.user_id,
            session_id=each.place.session_id,
            document=each.document,
            edition=each.edition,
            numbers=each.numbers,
        )
        for each in passages.values()
    ]
