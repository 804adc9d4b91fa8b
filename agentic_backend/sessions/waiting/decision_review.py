"""DecisionReview: lets modules look at what a person says in decisions, before these are stored and take effect.

Like the user's message of an ask: the texts of all decisions of a frame are one message to the modules. What they block
is refused, and the exchange waits on.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agentic_backend.errors import BadFrame, Blocked, ExchangeNotFound
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.decided_words import texts_of, with_texts
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules, LookedAt
from agentic_backend.policy.hooks.hook_checks import PARTS
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope
from agentic_backend.protocol.parts import Part, TextPart, text_of
from agentic_backend.sessions.waiting.approvals import is_choice, made_up_keys, recheck
from agentic_backend.stores.protocol.trail import TrailRecord
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord, HumanDecision

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions on a waiting exchange, once modules have looked at them."""

    waiting: ExchangeRecord
    """With what the modules have added to the prompt."""
    decisions: Sequence[HumanDecision]
    trail: Sequence[TrailRecord] = field(default=(), repr=False)


class DecisionReview:
    def __init__(self, services: ExchangeServices) -> None:
        self._store = services.store
        self._modules = services.modules

    async def look_at(
        self, waiting: ExchangeRecord, decisions: Sequence[HumanDecision], entry: AgentInScope
    ) -> Decided:
        """What the modules that apply leave of the `decisions`, which are checked.

        Raises Blocked, once that is recorded; BadFrame if the texts are too many, if a key would be replaced,
        or if what is left no longer matches the schema of its request; ExchangeNotFound and StoreUnavailable.
        """
        unchanged = Decided(waiting, decisions)
        if not self._modules.has(Point.BEFORE_AI):
            return unchanged
        # The ids of choices are the agent's words.
        own = [[] if is_choice(waiting, decision) else texts_of(decision) for decision in decisions]
        said_texts = [text for some in own for text in some]
        keys = [key for decision in decisions for key in made_up_keys(waiting, decision)]
        texts = [*said_texts, *keys]
        if not texts:
            return unchanged
        session = await self._store.get_session(waiting.session_id)
        if session is None:
            raise ExchangeNotFound
        modules = self._modules.of_exchange(waiting, entry.agent.settings, session, entry.effective.modules)
        if modules is None or not modules.has(Point.BEFORE_AI):
            return unchanged
        if len(texts) > PARTS:
            raise BadFrame(f"payload: more than {PARTS} texts can't be looked at together")
        said, for_model, look = await self._look(modules, texts)
        if look.blocked_response is not None:
            await self._store.add_trail(look.trail)
            ids = {"exchange_id": waiting.id, "session_id": waiting.session_id, "user_id": waiting.user_id}
            log.info("decision blocked", extra={**ids, "chat_module": look.blocked_by})
            raise Blocked(look.blocked_response)
        if keys != said[len(said_texts) :] or keys != for_model[len(said_texts) :]:
            # What reads the value finds nothing under another key.
            raise BadFrame("payload: modules would replace a key that was made up; say it in a value")
        left_said, left_for_model = iter(said), iter(for_model)
        looked_at = [
            with_texts(decision, [next(left_said) for _ in some], [next(left_for_model) for _ in some])
            if some
            else decision
            for decision, some in zip(decisions, own, strict=True)
        ]
        if said != texts:
            await asyncio.to_thread(recheck, waiting, looked_at)
        return Decided(_with_additions(waiting, look), looked_at, look.trail)

    async def _look(self, modules: ExchangeModules, texts: Sequence[str]) -> tuple[list[str], list[str], LookedAt]:
        """What modules leave of each text, for people and for models; and their look at all of them.

        A module may answer with one text for all, of which nobody knows where it belongs: then each is looked at alone.
        """
        look = await modules.before_ai([TextPart(text=text) for text in texts])
        if look.blocked_response is not None:
            return [], [], look
        if len(texts) == 1:
            return [text_of(look.parts)], [text_of(look.model_parts or look.parts)], look
        said, for_model = _one_each(look.parts), _one_each(look.model_parts or look.parts)
        if said is not None and for_model is not None and len(said) == len(for_model) == len(texts):
            return said, for_model, look
        said, for_model = [], []
        for text in texts:
            alone = await modules.before_ai([TextPart(text=text)])
            if alone.blocked_response is not None:
                # What they find in it is recorded already.
                blocks = replace(look, blocked_response=alone.blocked_response, blocked_by=alone.blocked_by)
                return [], [], replace(blocks, trail=[*look.trail, *alone.trail])
            said.append(text_of(alone.parts))
            for_model.append(text_of(alone.model_parts or alone.parts))
        if said == for_model == list(texts):
            # What they have against the texts together is in none of them.
            return [], [], replace(look, blocked_response=Blocked.default)
        return said, for_model, look


def _one_each(parts: Sequence[Part]) -> list[str] | None:
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return texts if len(texts) == len(parts) else None


def _with_additions(waiting: ExchangeRecord, look: LookedAt) -> ExchangeRecord:
    """The exchange with what modules now add to its prompt, in place of what the same ones have added before."""
    if not look.prompt_additions:
        return waiting
    policy = waiting.policy or ExchangePolicy()
    anew = {addition.module for addition in look.prompt_additions}
    kept = [addition for addition in policy.prompt_additions if addition.module not in anew]
    additions = [*kept, *look.prompt_additions]
    return replace(waiting, policy=policy.model_copy(update={"prompt_additions": additions}))
