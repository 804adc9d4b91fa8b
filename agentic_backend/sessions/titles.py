"""Titles: names a new session with the default model, beside its first exchange and never before its first token."""

import asyncio
import logging

from langchain_core.messages import HumanMessage, SystemMessage

from agentic_backend.agents.models import ChatModels
from agentic_backend.errors import AgenticError
from agentic_backend.protocol.messages import Session
from agentic_backend.sessions.prompts import NAME_CONVERSATION
from agentic_backend.sessions.relay import Relay
from agentic_backend.stores.base import Store

log = logging.getLogger(__name__)

UNNAMED = "New conversation"
_LONGEST = 80
_LONGEST_QUESTION = 2_000
# Titles are a courtesy: more at once would only take the provider's capacity from answers.
_AT_ONCE, _AT_ONCE_OF_USER = 8, 4


def provisional_title(message: str) -> str:
    """What a session is called until it has its name: the beginning of its first message."""
    words = " ".join(message.split())
    return (words if len(words) <= 60 else words[:59].rstrip() + "…") or UNNAMED


class Titles:
    """The relay owns and awaits the tasks that run here."""

    def __init__(self, models: ChatModels, store: Store, relay: Relay, timeout_s: float) -> None:
        self._models = models
        self._store = store
        self._relay = relay
        self._timeout_s = timeout_s
        self._naming: list[str] = []
        """Whose sessions are being named."""

    def name_soon(self, session: Session, message: str) -> None:
        """Name `session` after `message`, unless somebody names it first."""
        if len(self._naming) < _AT_ONCE and self._naming.count(session.user_id) < _AT_ONCE_OF_USER:
            self._naming.append(session.user_id)
            self._relay.spawn(self._name(session, message)).add_done_callback(
                lambda _: self._naming.remove(session.user_id)
            )

    async def _name(self, session: Session, message: str) -> None:
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
                self._relay.session_changed(renamed)

    async def _ask_model(self, message: str) -> str:
        prompt = [SystemMessage(NAME_CONVERSATION), HumanMessage(message[:_LONGEST_QUESTION])]
        answer = await self._models.get().ainvoke(prompt)
        return " ".join(answer.text.split()).strip("\"'“”«». ")[:_LONGEST]
