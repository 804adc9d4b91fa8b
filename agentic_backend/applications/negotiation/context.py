"""The context payload of a turn: all that a roleplay may refer to, and what is unknown, said as such."""

from collections.abc import Sequence
from typing import Literal

from agentic_backend.application import Value
from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot
from agentic_backend.applications.negotiation.case.world import Fact
from agentic_backend.applications.negotiation.packs.pack import Template, unknown_required_slots

UNKNOWN_BY_DESIGN = (
    "What is not listed here is unknown to you. It is left out on purpose: do not assume it, guess it or make it up."
)
ROLEPLAY = (
    "You play {counterparty} in a rehearsal of a conversation. Speak as this person, in one reply. Refer to the facts"
    " below and to what was said, and to nothing else. Give no advice and do not judge how the other negotiates."
)
MOST_HISTORY = 40


class VisibleFact(Value):
    """A fact that the counterparty knows."""

    id: str
    text: str


class PromptMessage(Value):
    """A message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class ContextPayload(Value):
    """What the prompt of a turn is made of."""

    visible_facts: list[VisibleFact]
    prompt_messages: list[PromptMessage]
    unknown_required_slots: list[str]
    unknown_by_design_note: str = UNKNOWN_BY_DESIGN


def context_payload(
    template: Template,
    snapshot: CaseSnapshot,
    visible: Sequence[Fact],
    history: Sequence[PromptMessage],
    message: str,
) -> ContextPayload:
    """The payload for this message of the person; `visible` are the facts that the counterparty knows.

    Nothing of the snapshot reaches the prompt, not even a title: all of it is the person's own. What it is about the
    counterparty has from the template.
    """
    facts = [VisibleFact(id=fact.id, text=fact.text) for fact in visible]
    lines = [ROLEPLAY.format(counterparty=template.counterparty), "", f"It is about: {template.issue.title}."]
    lines += ["", "What you know:", *(f"- {fact.text}" for fact in facts)] if facts else []
    lines += ["", UNKNOWN_BY_DESIGN]
    messages = [
        PromptMessage(role="system", content="\n".join(lines)),
        *history[-MOST_HISTORY:],
        PromptMessage(role="user", content=message),
    ]
    missing = [slot.id for slot in unknown_required_slots(template, snapshot)]
    return ContextPayload(visible_facts=facts, prompt_messages=messages, unknown_required_slots=missing)
