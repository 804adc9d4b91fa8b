"""TextGate: lets modules look at each text of an agent before it is stored, and keeps what they have decided.

Owned by the exchange. Texts are those that models write: finals, observations, plans and thoughts. Once a module has
blocked one, no other text of the exchange is stored as it was said.
"""

from collections.abc import Sequence
from typing import Any, Literal

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.decided_words import texts_of
from agentic_backend.policy.hooks.exchange_modules import BLOCKED_TEXT, ExchangeModules
from agentic_backend.policy.hooks.hook_checks import replaced
from agentic_backend.protocol.messages import Channel, MessageMetadata, Role
from agentic_backend.protocol.parts import Part, TextPart, text_of
from agentic_backend.stores.protocol.trail import AuditRecord, TrailRecord
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, MessageRecord
from agentic_backend.streaming.transcode.drafts import CompleteDraft, Draft

_TEXTS = {Channel.FINAL, Channel.OBSERVATION, Channel.PLAN, Channel.THOUGHT}


class TextGate:
    def __init__(
        self, record: ExchangeRecord, agent: AgentSettings, opening: MessageRecord, modules: ExchangeModules | None
    ) -> None:
        """`opening` is the user's message, `modules` are those that apply to the exchange."""
        self._agent_id = record.agent_id
        self._modules = modules if modules is not None and modules.has(Point.AFTER_AI) else None
        self._said = opening.parts if self._modules is None else _said_in(record, opening)
        """What the person has said in the exchange."""
        self.holds = agent.hold_output or (modules is not None and modules.holds_output)
        """Whether people see a text only when it has passed."""
        policy = record.policy
        self.blocked_response = policy.blocked_response if policy is not None else None
        """What the user is shown as the final, once a module has blocked their message or a text of the agent."""
        self._blocked = _blocked(policy.blocked_by, "input") if policy is not None else {}
        """Which module has blocked what, as the extras of the final."""
        self.has_changed = False
        """Whether the graph's own messages have a text that models must not be given later."""

    @property
    def hides_text(self) -> bool:
        """Whether nobody sees a text before it is complete."""
        return self.holds or self.blocked_response is not None

    def looks_at(self, draft: Draft) -> bool:
        """Whether modules may look at the draft."""
        return self._modules is not None and isinstance(draft, CompleteDraft) and is_text(draft)

    def drops(self, draft: Draft) -> bool:
        """Whether a stop drops the draft: a text of the agent that nobody has seen."""
        is_unseen = self.holds and self.blocked_response is None
        return is_unseen and isinstance(draft, CompleteDraft) and is_text(draft)

    async def passed(self, draft: Draft, rank: int, within_s: float | None, trail: list[TrailRecord]) -> Draft:
        """The draft as it is stored, with `rank`, if it is a message; adds the records of it to `trail`.

        `within_s` shortens the time that modules have.
        """
        if not isinstance(draft, CompleteDraft):
            return draft
        if self.holds:
            # Nobody has seen its block.
            draft = draft._replace(block=None)
        if not is_text(draft):
            return draft
        text = text_of(draft.message.parts)
        if self.blocked_response is not None:
            if self._modules is not None and text.strip() and text != self.blocked_response:
                trail += self._modules.also_blocked(text, rank)
            return self._replaced(draft, self.blocked_response)
        if self._modules is None or not text.strip():
            return draft
        return await self._reviewed(self._modules, draft, text, rank, within_s, trail)

    async def _reviewed(
        self,
        modules: ExchangeModules,
        draft: CompleteDraft,
        text: str,
        rank: int,
        within_s: float | None,
        trail: list[TrailRecord],
    ) -> CompleteDraft:
        message = draft.message
        reviewed = await modules.after_ai(text, message.channel, self._said, rank, within_s)
        trail += reviewed.trail
        if reviewed.blocked_response is not None:
            self.blocked_response, self.has_changed = reviewed.blocked_response, True
            self._blocked = _blocked(reviewed.blocked_by, "output")
            return self._replaced(draft, reviewed.blocked_response)
        if reviewed.text == reviewed.for_model == text:
            return draft
        if reviewed.for_model != text:
            self.has_changed = True
        draft = _changed_by(_objecting(reviewed.trail), draft)
        parts = replaced(message.parts, reviewed.text)
        if reviewed.for_model == reviewed.text:
            return draft.with_parts(parts)
        return draft.changed(parts=parts, model_parts=replaced(message.parts, reviewed.for_model))

    def final(self, response: str) -> CompleteDraft:
        """The final of an exchange whose agent has said nothing that can be its final."""
        metadata = MessageMetadata(agent_id=self._agent_id, extras=self._blocked)
        parts = [TextPart(text=response)]
        return CompleteDraft(
            MessageDraft(role=Role.ASSISTANT, channel=Channel.FINAL, parts=[*parts], metadata=metadata), None
        )

    def _replaced(self, draft: CompleteDraft, response: str) -> CompleteDraft:
        is_final = draft.message.channel is Channel.FINAL
        # The metadata may quote what was said, such as the sources that it cites.
        extras = self._blocked if is_final else {}
        metadata = draft.message.metadata.model_copy(update={"sources": [], "extras": extras})
        return draft.changed(parts=[TextPart(text=response if is_final else BLOCKED_TEXT)], metadata=metadata)


def is_text(draft: CompleteDraft) -> bool:
    """Whether the message is a text of the agent."""
    return draft.message.role is Role.ASSISTANT and draft.message.channel in _TEXTS


def gate_of(
    record: ExchangeRecord, agent: AgentSettings, opening: MessageRecord, modules: ExchangeModules | None
) -> TextGate | None:
    """The gate of an exchange; None if nothing would be looked at or held."""
    gate = TextGate(record, agent, opening, modules)
    looks = modules is not None and modules.has(Point.AFTER_AI)
    return gate if looks or gate.hides_text else None


def _said_in(record: ExchangeRecord, opening: MessageRecord) -> list[Part]:
    """The parts of the user's message, then the texts of their decisions."""
    decided = (TextPart(text=text) for decision in record.decisions for text in texts_of(decision))
    return [*opening.parts, *decided]


def _objecting(trail: Sequence[TrailRecord]) -> list[str]:
    """The names of the modules that had something against the text, each once."""
    return list(dict.fromkeys(one.module for one in trail if isinstance(one, AuditRecord) and one.is_objection))


def _changed_by(modules: list[str], draft: CompleteDraft) -> CompleteDraft:
    """The draft with the names of the modules that have changed it, if any."""
    metadata = draft.message.metadata
    extras = {**metadata.extras, "changed_by": modules}
    return draft.changed(metadata=metadata.model_copy(update={"extras": extras})) if modules else draft


def _blocked(module: str | None, stage: Literal["input", "output"]) -> dict[str, Any]:
    return {} if module is None else {"blocked": {"module": module, "stage": stage}}
