"""Titles: names a new session with the default model, while its first exchange runs and after its first token."""

import asyncio
import logging

from langchain_core.messages import HumanMessage, SystemMessage

from agentic_backend.agents.models import ChatModels
from agentic_backend.errors import AgenticError
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.protocol.parts import text_of
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import SessionRecord

log = logging.getLogger(__name__)

NAME_CONVERSATION = (
    "You name conversations. Read the first message of a conversation between a person and an assistant, and answer "
    "with a title for it: at most six words, in the language of the message, without quotes and without a full stop. "
    "Answer with the title of the conversation only, and don't answer the message itself."
)

UNNAMED = "New conversation"
_LONGEST = 80
_LONGEST_PROVISIONAL = 60
_LONGEST_QUESTION = 2_000
# Few at once: titles should not take the provider's capacity from answers.
_AT_ONCE, _AT_ONCE_OF_USER = 8, 4


def provisional_title(message: str) -> str:
    """The title of a session until it is named: the beginning of its first message."""
    # No more words than fit: splitting a whole long message would hold up the event loop.
    words = " ".join(message.split(maxsplit=_LONGEST_PROVISIONAL))
    if len(words) > _LONGEST_PROVISIONAL:
        words = words[: _LONGEST_PROVISIONAL - 1].rstrip() + "…"
    return words or UNNAMED


class Titles:
    """Names sessions in tasks that the relay owns and awaits."""

    def __init__(self, models: ChatModels, store: Store, relay: Relay, timeout_s: float) -> None:
        self._models = models
        self._store = store
        self._relay = relay
        self._timeout_s = timeout_s
        self._naming: list[str] = []
        """The user id of each session that is being named."""

    def name_after_first(self, start: ExchangeStart) -> None:
        """Name the session of an exchange that begins to answer, if it is the first one and the session has no name."""
        session = start.session
        if session is None or start.opening.rank != 0:
            return
        message = text_of(start.opening.parts)
        if session.title in (UNNAMED, provisional_title(message)):
            self.name_soon(session, message)

    def name_soon(self, session: SessionRecord, message: str) -> None:
        """Name `session` after `message`, unless it is renamed first or too many sessions are being named."""
        if len(self._naming) < _AT_ONCE and self._naming.count(session.user_id) < _AT_ONCE_OF_USER:
            self._naming.append(session.user_id)
            self._relay.spawn(self._name(session, message)).add_done_callback(
                lambda _: self._naming.remove(session.user_id)
            )

    async def _name(self, session: SessionRecord, message: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                title = await self._ask_model(message)
                renamed = title and await self._store.rename_session(session.id, title, only_if=session.title)
        except AgenticError as error:
            log.warning("session not named", extra={"session_id": session.id, "code": error.code})
        except Exception as error:
            # A provider may raise anything; the session keeps its provisional title.
            log.warning("session not named", exc_info=error, extra={"session_id": session.id})
        else:
            if renamed:
                self._relay.session_changed(renamed.shown())

    async def _ask_model(self, message: str) -> str:
        prompt = [SystemMessage(NAME_CONVERSATION), HumanMessage(message[:_LONGEST_QUESTION])]
        answer = await self._models.get().ainvoke(prompt)
        return " ".join(answer.text.split()).strip("\"'“”«». ")[:_LONGEST]
