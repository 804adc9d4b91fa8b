"""Questions: the interrupts that are about no call, and what they are answered with. Pure."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from langgraph.types import Interrupt

from agentic_backend.inlined_schema import inlined_schema
from agentic_backend.protocol.events import Choice, HumanRequest
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.content.json_form import value_form
from agentic_backend.streaming.people.input_schemas import answer_schema
from agentic_backend.streaming.people.wording import items, worded

_MOST_CHOICES = 200
# Under these names authors put what they ask, beside what it is about.
_ASKED_AS = ("question", "message", "prompt", "instruction", "instructions", "task", "title", "description")


class Question:
    """An interrupt with any value. The answer resumes it unchanged."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt

    @property
    def requests(self) -> list[HumanRequest]:
        value, schema = self._value, answer_schema(self._interrupt)
        asked, offered = value, []
        if isinstance(value, dict):
            asked = next((value[name] for name in _ASKED_AS if value.get(name)), value)
            offered = items(value.get("choices")) or items(value.get("options"))
        if schema is None and offered and all(isinstance(one, bool | int | float) for one in offered):
            # The graph is given what it offers, and not its digits.
            schema = {"enum": offered[:_MOST_CHOICES]}
        request = HumanRequest(
            interrupt_id=self._interrupt.id,
            question=worded(asked),
            choices=_choices(offered, schema) or None,
            response_schema=schema,
            allowed=["answer"],
        )
        return [request]

    def require_answerable(self) -> None:
        """Raises UnusableSchema if its schema is none, or leads nowhere: no answer could be checked."""
        if (schema := answer_schema(self._interrupt)) is not None:
            inlined_schema(schema)

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


def _choices(offered: Sequence[Any], schema: Mapping[str, Any] | None) -> list[Choice]:
    """The choices of which a person takes one; none if they can't be told apart, or if `schema` takes other answers."""
    choices = [_choice(choice) for choice in offered[: _MOST_CHOICES + 1]]
    ids = {choice.id for choice in choices}
    is_usable = 0 < len(choices) == len(ids) <= _MOST_CHOICES and "" not in ids
    return choices if is_usable and _takes(schema, ids) else []


def _takes(schema: Mapping[str, Any] | None, ids: Collection[str]) -> bool:
    """Whether an answer by the id of a choice can match the schema."""
    if schema is None:
        return True
    values = schema.get("enum")
    return all(one in values for one in ids) if isinstance(values, list) else schema.get("type") == "string"


def _choice(choice: Any) -> Choice:
    if not isinstance(choice, Mapping):
        return Choice(id=_text(choice), label=_text(choice))
    label = _first(choice, ("label", "name", "title", "id", "value"))
    description = choice.get("description")
    return Choice(
        id=_first(choice, ("id", "value", "label", "name", "title")),
        label=label,
        description=_text(description) if description else None,
    )


def _first(choice: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((_text(choice[name]) for name in names if choice.get(name)), "")


def _text(form: Any) -> str:
    """A text whole, because an id must not be cut."""
    return form if isinstance(form, str) else worded(form)
