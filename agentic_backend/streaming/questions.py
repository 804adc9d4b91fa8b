"""Questions: the interrupts that are about no call, and what they are answered with. Pure."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from langgraph.types import Interrupt

from agentic_backend.protocol.events import Choice, HumanRequest
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.input_schemas import answer_schema
from agentic_backend.streaming.json_form import value_form
from agentic_backend.streaming.wording import items, worded

# Under these names authors put what they ask, beside what it is about.
_ASKED_AS = ("question", "message", "prompt", "instruction", "instructions", "task", "title", "description")


class Question:
    """An interrupt with any value. The answer resumes it unchanged."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt

    @property
    def requests(self) -> list[HumanRequest]:
        value = self._value
        choices: list[Choice] = []
        asked = value
        if isinstance(value, dict):
            asked = next((value[name] for name in _ASKED_AS if value.get(name)), value)
            choices = [_choice(choice) for choice in items(value.get("choices")) or items(value.get("options"))]
        request = HumanRequest(
            interrupt_id=self._interrupt.id,
            question=worded(asked),
            choices=choices or None,
            response_schema=answer_schema(self._interrupt),
            allowed=["answer"],
        )
        return [request]

    @property
    def title(self) -> str | None:
        """The title above all that is asked, if the question has one beside its text."""
        value = self._value
        if not isinstance(value, dict) or not (value.get("question") or value.get("message")):
            return None
        return worded(value["title"]) if value.get("title") else None

    def resume(self, decisions: Sequence[HumanDecision]) -> Any:
        [decision] = decisions
        return decision.answer

    @cached_property
    def _value(self) -> Any:
        return value_form(self._interrupt.value)


class BreakpointQuestion(Question):
    """A pause before nodes: the answer `true` goes on (see agents.paused_graph)."""

    @property
    def requests(self) -> list[HumanRequest]:
        [request] = super().requests
        nodes = ", ".join(self._interrupt.value["before"])
        return [request.model_copy(update={"question": worded(f"The agent has paused before: {nodes}. Go on?")})]


def _choice(choice: Any) -> Choice:
    if not isinstance(choice, Mapping):
        return Choice(id=_text(choice), label=_text(choice))
    label = choice.get("label") or choice.get("id") or ""
    description = choice.get("description")
    return Choice(
        id=_text(choice.get("id") or label),
        label=_text(label),
        description=_text(description) if description else None,
    )


def _text(form: Any) -> str:
    """A text whole, because an id must not be cut."""
    return form if isinstance(form, str) else worded(form)
