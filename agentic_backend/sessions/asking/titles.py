"""Titles: names sessions with a model, in the background, once their exchanges are answered.

Naming takes what answers leave: it waits in a bounded queue, and begins only while no exchange waits for its first
token and fewer titles than a tenth of the running model calls are asked for (one may always be). What is lost, with
the queue, the process or a failure of the model, is named after the session's next exchange, on whichever instance: the
store knows which sessions have no name.

The model is given what the agent's model was given of the message. Its title passes `after_ai` like an answer: what
modules block, and what still has a placeholder then, names no session.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import HumanMessage, SystemMessage

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.models.output_limit import with_output_limit
from agentic_backend.config.topics.sessions import TitlesSettings
from agentic_backend.errors import AgenticError
from agentic_backend.kpi import Kpi
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.modules.placeholders import shows_placeholder
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.policy.usage.usage_ledger import Payer, UsageLedger
from agentic_backend.protocol.parts import Part, TextPart, text_of
from agentic_backend.relay.first_tokens import wait_for_first_tokens
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord, MessageRecord, SessionRecord
from agentic_backend.tracing.spans import without_content

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
_LONGEST_ANSWER = 2_000
# Many times the tokens of six words, in any language.
_MOST_TOKENS = 200
# Titles must not take the provider's capacity from answers: one for so many running model calls.
_MODEL_CALLS_PER_TITLE = 10
_WAITING_AT_MOST = 1_000


def provisional_title(message: str) -> str:
    """The title of a session until it is named: the beginning of its first message."""
    # No more words than fit: splitting a whole long message would hold up the event loop.
    words = " ".join(message.split(maxsplit=_LONGEST_PROVISIONAL))
    if len(words) > _LONGEST_PROVISIONAL:
        words = words[: _LONGEST_PROVISIONAL - 1].rstrip() + "…"
    return words or UNNAMED


@dataclass(frozen=True, slots=True)
class _Opening:
    """The beginning of a session, and who pays for its title."""

    text: str = field(repr=False)
    payer: Payer
    modules: ExchangeModules | None
    """What the title passes; None if nothing."""
    said: str = field(repr=False)
    """The message as people see it, for the modules."""


class Titles:
    """Names sessions in tasks that the relay owns, and cancels and awaits when the process ends."""

    def __init__(
        self,
        models: ChatModels,
        store: Store,
        relay: Relay,
        kpi: Kpi,
        ledger: UsageLedger,
        settings: TitlesSettings,
        timeout_s: float,
    ) -> None:
        self._models = models
        self._store = store
        self._relay = relay
        self._kpi = kpi
        self._ledger = ledger
        self._settings = settings
        self._timeout_s = timeout_s
        self._waiting: dict[str, dict[str, _Opening]] = {}
        """The openings of the sessions to name, by session id, oldest first, by user id in the order of their turns."""
        self._naming: dict[str, str] = {}
        """The user id of each session that is being named, by session id."""

    def name_after(
        self,
        session: SessionRecord,
        opening: MessageRecord,
        exchange: ExchangeRecord,
        modules_of: Callable[[ExchangeRecord, SessionRecord], ExchangeModules | None],
    ) -> None:
        """Name the session after the user's message of an exchange that is answered, unless it has a name.

        `modules_of` finds the modules that apply to an exchange, and raises AgenticError where nobody knows them.
        """
        if exchange.policy is not None and exchange.policy.blocked_response is not None:
            # A module has blocked the message: no model is called.
            return
        message = _question_in(opening.model_parts or opening.parts)
        if not self._settings.enabled or not session.unnamed or not message or session.id in self._naming:
            return
        try:
            modules = modules_of(exchange, session)
        except AgenticError:
            return
        first = _Opening(message, Payer.of(exchange), modules, _question_in(opening.parts))
        self._waiting.setdefault(session.user_id, {}).setdefault(session.id, first)
        self._drop_some()
        self._begin_some()

    def forget(self, user_id: str) -> None:
        """Don't name the user's sessions that still wait for a name."""
        self._waiting.pop(user_id, None)

    def _drop_some(self) -> None:
        """Keep the queue bounded: whoever has the most sessions in it loses the oldest."""
        if sum(map(len, self._waiting.values())) <= _WAITING_AT_MOST:
            return
        user_id, longest = max(self._waiting.items(), key=lambda waiting: len(waiting[1]))
        dropped = next(iter(longest))
        del longest[dropped]
        if not longest:
            del self._waiting[user_id]
        self._kpi.sessions.titled("dropped")
        log.warning("too many sessions wait for a title", extra={"session_id": dropped})

    def _begin_some(self) -> None:
        """Begin to name sessions, the users taking turns. A server that is going leaves them to another."""
        places = max(1, len(self._relay.model_calls_begun_at) // _MODEL_CALLS_PER_TITLE)
        while len(self._naming) < places and not self._relay.draining:
            taken, most_of_user = Counter(self._naming.values()), max(1, places // 2)
            user_id = next((user for user in self._waiting if taken[user] < most_of_user), None)
            if user_id is None:
                return
            # The user's next turn comes after all others'.
            sessions = self._waiting.pop(user_id)
            session_id = next(iter(sessions))
            opening = sessions.pop(session_id)
            if sessions:
                self._waiting[user_id] = sessions
            self._naming[session_id] = user_id
            self._relay.spawn(self._name(session_id, opening))

    async def _name(self, session_id: str, opening: _Opening) -> None:
        outcome = "failed"
        try:
            await wait_for_first_tokens(self._relay)
            async with served_timeout(self._timeout_s):
                outcome = await self._rename(session_id, opening)
        except AgenticError as error:
            log.warning("session not named", extra={"session_id": session_id, "code": error.code})
        except Exception as error:
            # A provider may raise anything; the session keeps its provisional title.
            log.warning("session not named", exc_info=error, extra={"session_id": session_id})
        finally:
            del self._naming[session_id]
            self._kpi.sessions.titled(outcome)
            self._begin_some()

    async def _rename(self, session_id: str, opening: _Opening) -> str:
        """Name the session; return what came of it, as its metric says."""
        session = await self._store.get_session(session_id)
        if session is None or not session.unnamed:
            # It has been deleted or renamed since: the model need not be asked.
            return "unneeded"
        title = await self._ask_model(opening)
        if title and opening.modules is not None:
            passed = await self._passed(title, opening, opening.modules)
            if passed is None:
                return "blocked"
            title = passed
        title = _trimmed(title)[:_LONGEST]
        if not title:
            return "empty"
        named = await self._store.name_session(session_id, title)
        for each in named:
            self._relay.session_changed(each.shown())
        return "named" if named else "unneeded"

    async def _ask_model(self, opening: _Opening) -> str:
        prompt = [SystemMessage(NAME_CONVERSATION), HumanMessage(opening.text)]
        model = with_output_limit(self._models.get(self._settings.model), _MOST_TOKENS)
        # Nothing has looked at the title yet.
        with without_content(only_if=opening.modules is not None):
            answer = await self._ledger.ask(model, prompt, opening.payer, "title")
        return _trimmed(answer.text[:_LONGEST_ANSWER])

    async def _passed(self, title: str, opening: _Opening, modules: ExchangeModules) -> str | None:
        """What modules leave of the title; None if that names no session."""
        reviewed = await modules.title(title, [TextPart(text=opening.said)])
        if reviewed.trail:
            await self._store.add_trail(reviewed.trail)
        if reviewed.blocked_response is not None or shows_placeholder(reviewed.text):
            return None
        return reviewed.text


def _question_in(parts: Sequence[Part]) -> str:
    """The beginning of the message: its first text is the question, and texts of attached files follow it."""
    texts = [part for part in parts if isinstance(part, TextPart)]
    return text_of([*texts[:1]])[:_LONGEST_QUESTION].strip()


def _trimmed(title: str) -> str:
    return " ".join(title.split()).strip("\"'“”«». ")
