"""AgentInbox: the interrupts in the form of LangChain's Agent Inbox (`HumanInterrupt`, `HumanResponse`). Pure.

A graph gives one action or a list of actions, and is resumed with one response or a list of as many:

| allowed by `config` | decision | response |
|---|---|---|
| `allow_accept` | approve | `accept`, with the action |
| `allow_edit` | edit | `edit`, with the edited action |
| `allow_respond` | reject with a message | `response`, with the message |
| `allow_ignore` | reject without a message, or nobody decided in time | `ignore` |

An action that can neither be accepted nor edited is a question: a text is its `response`, `null` means `ignore`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.types import Interrupt

from agentic_backend.protocol.events import HumanRequest
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.content.json_form import json_form
from agentic_backend.streaming.people.approval_requests import EXPIRED, call_request, place
from agentic_backend.streaming.people.wording import worded

_REJECTED = "Rejected."
_ALL = ("allow_accept", "allow_edit", "allow_respond", "allow_ignore")

Action = Mapping[str, Any]


def actions_of(value: Any) -> list[Action]:
    """The actions that `value` asks for; empty if it is not of this form."""
    actions = value if isinstance(value, list | tuple) else [value]
    return list(actions) if all(map(_is_action, actions)) else []


def _is_action(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    request = value.get("action_request")
    return isinstance(request, Mapping) and isinstance(request.get("action"), str)


class AgentInbox:
    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._is_list = isinstance(interrupt.value, list | tuple)
        self._actions = actions_of(interrupt.value)

    @property
    def requests(self) -> list[HumanRequest]:
        return [self._request(index, action) for index, action in enumerate(self._actions)]

    def resume(self, decisions: Sequence[HumanDecision]) -> Any:
        responses = [_response(*decided) for decided in zip(self._actions, decisions, strict=True)]
        return responses if self._is_list else responses[0]

    def _request(self, index: int, action: Action) -> HumanRequest:
        asked, may = action["action_request"], _allowed(action)
        description = worded(json_form(action["description"])) if action.get("description") else None
        if may <= {"allow_respond", "allow_ignore"} and "allow_respond" in may:
            return self._question(index, description or worded(asked["action"]), may)
        decisions = {"allow_accept": "approve", "allow_edit": "edit", "allow_respond": "reject"}
        allowed = [decisions.get(name, "reject") for name in may]
        return call_request(
            self._interrupt, index, asked["action"], asked.get("args"), allowed, question=description
        ).model_copy(update={"interrupt_id": self._name(index)})

    def _question(self, index: int, question: str, may: set[str]) -> HumanRequest:
        text = {"type": "string"}
        schema = {"anyOf": [text, {"type": "null"}]} if "allow_ignore" in may else text
        return HumanRequest(
            interrupt_id=self._name(index), question=question, response_schema=schema, allowed=["answer"]
        )

    def _name(self, index: int) -> str:
        """Answers name an interrupt only, so each of several actions needs a name of its own."""
        return place(self._interrupt, index) if len(self._actions) > 1 else self._interrupt.id


def _allowed(action: Action) -> set[str]:
    config = action.get("config")
    if not isinstance(config, Mapping):
        return set(_ALL)
    # What allows nothing is a notice, which can be dismissed.
    return {name for name in _ALL if config.get(name)} or {"allow_ignore"}


def _response(action: Action, decision: HumanDecision) -> dict[str, Any]:
    asked, may = action["action_request"], _allowed(action)
    match decision.action:
        case "approve":
            return {"type": "accept", "args": asked}
        case "edit":
            return {"type": "edit", "args": {"action": asked["action"], "args": decision.edited_args}}
        case "answer" if decision.answer is None:
            return {"type": "ignore", "args": None}
        case "answer":
            return {"type": "response", "args": decision.answer}
    default = EXPIRED if decision.action == "expire" else _REJECTED
    said = decision.message or (None if "allow_ignore" in may else default)
    is_response = said is not None and "allow_respond" in may
    return {"type": "response", "args": said} if is_response else {"type": "ignore", "args": None}
