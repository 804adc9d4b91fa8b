"""OpeningReview: lets modules look at the user's message of an ask, before it is stored and anything runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agentic_backend.errors import SessionBusy, SessionCompleted
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.modules.placeholders import without_placeholders
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.exchange_modules import BLOCKED_TEXT, ExchangeModules, LookedAt
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope
from agentic_backend.protocol.messages import SessionState
from agentic_backend.protocol.parts import TextPart, text_of
from agentic_backend.sessions.asking.attached import NOTHING_ATTACHED, Attached
from agentic_backend.sessions.asking.given_past import past_draft
from agentic_backend.sessions.asking.titles import provisional_title
from agentic_backend.sessions.asking.turn import PastMessage
from agentic_backend.stores.base import AlreadyAsked
from agentic_backend.stores.protocol.trail import TrailRecord
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord, MessageDraft, SessionRecord


@dataclass(frozen=True, slots=True)
class Opening:
    """How an exchange begins, once modules have looked at it."""

    record: ExchangeRecord
    message: MessageDraft
    session: SessionRecord | None
    modules: ExchangeModules | None = None
    """The modules that apply to the exchange."""
    trail: Sequence[TrailRecord] = field(default=(), repr=False)


class OpeningReview:
    def __init__(self, services: ExchangeServices) -> None:
        self._store = services.store
        self._relay = services.relay
        self._modules = services.modules

    async def look_at(
        self,
        record: ExchangeRecord,
        found: AgentInScope,
        session: SessionRecord | None,
        message: MessageDraft,
        *,
        attached: Attached = NOTHING_ATTACHED,
        is_new: bool = False,
    ) -> Opening:
        """What the modules that apply leave of `message` with what is `attached`; `is_new`: its session is not stored.

        They look at the texts of files as at another message, so that people see of theirs what they have written.

        Raises AlreadyAsked, SessionBusy and SessionCompleted as far as that is known, so that no module is asked for
        nothing; and StoreUnavailable.
        """
        settings, switches = found.agent.settings, found.effective.modules
        modules = self._modules.of_exchange(record, settings, session, switches, is_new=is_new)
        message = attached.beside(message)
        if modules is None or not modules.has(Point.BEFORE_AI):
            return Opening(record, message, session, modules)
        await self._check(record, session, is_new)
        look = await _look(modules, message, attached)
        policy = record.policy or ExchangePolicy()
        told = {
            "prompt_additions": look.prompt_additions,
            "blocked_response": look.blocked_response,
            "blocked_by": look.blocked_by,
        }
        record, message = replace(record, policy=policy.model_copy(update=told)), _left_of(message, look)
        if session is not None and is_new:
            session = replace(session, title=provisional_title(without_placeholders(text_of(message.parts), "…")))
        return Opening(record, message, session, modules, look.trail)

    async def look_at_past(self, opening: Opening, past: Sequence[PastMessage]) -> list[MessageDraft]:
        """What the modules leave of the messages before a query: they look at each as at one of the user's.

        One that a module blocks tells no more than that, so that the user can go on after it.
        """
        modules, drafts = opening.modules, []
        for each in past:
            attached = Attached([file.record for file in each.files])
            message = attached.beside(past_draft(each))
            if modules is not None and modules.has(Point.BEFORE_AI):
                message = _left_of(message, await _look(modules, message, attached))
            drafts.append(message)
        return drafts

    def tell(self, opening: Opening, *, is_new: bool = False) -> None:
        """Tell modules, beside the exchange, of the message that is stored, and of the new session."""
        if opening.modules is None:
            return
        if is_new:
            self._modules.beside(opening.modules, Point.SESSION_START)
        self._modules.beside(opening.modules, Point.ON_MESSAGE, opening.message.parts)

    async def _check(self, record: ExchangeRecord, session: SessionRecord | None, is_new: bool) -> None:
        if record.client_exchange_id is not None and session is not None:
            asked = await self._store.find_exchange(record.user_id, record.client_exchange_id)
            if asked is not None:
                raise AlreadyAsked(asked.id)
        if session is None or is_new:
            return
        if session.state is SessionState.COMPLETED:
            raise SessionCompleted
        if self._relay.running_in(session.id) is not None:
            raise SessionBusy


async def _look(modules: ExchangeModules, message: MessageDraft, attached: Attached) -> LookedAt:
    """What the modules leave of a message that has been `attached` to."""
    look = await modules.before_ai(message.parts)
    if attached.model_parts and look.blocked_response is None:
        look = look.followed_by(await modules.before_ai(attached.model_parts))
    return look


def _left_of(message: MessageDraft, look: LookedAt) -> MessageDraft:
    if look.blocked_response is not None:
        return replace(message, parts=[TextPart(text=BLOCKED_TEXT)], model_parts=[])
    return replace(message, parts=look.parts, model_parts=look.model_parts)
