"""The interrupts of LangChain's HumanInTheLoopMiddleware, in either of its forms. Pure.

With `interrupt_mode="per_call"` each call has an interrupt of its own, else one interrupt has a batch of calls.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rfc8785
from langgraph.types import Interrupt

from agentic_backend.protocol.events import HumanRequest
from agentic_backend.protocol.frames import LONGEST_ID
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.content.json_form import exact_form, is_readable, json_form
from agentic_backend.streaming.people.input_schemas import args_schema, decision_schemas, message_schema
from agentic_backend.streaming.people.wording import items, mappings, worded

ACTIONS = ("approve", "reject", "edit")
EXPIRED = "Nobody decided in time."


# The hash that binds an approval to the arguments that were shown. Pure.


def args_sha256(args: Mapping[str, Any]) -> str:
    """The hex SHA-256 of the arguments' canonical JSON (RFC 8785)."""
    try:
        canonical = rfc8785.dumps(dict(args))
    except rfc8785.CanonicalizationError:
        # Integers beyond 2**53 have no canonical JSON number; they are hashed as text.
        canonical = rfc8785.dumps(_big_integers_as_text(dict(args)))
    return hashlib.sha256(canonical).hexdigest()


def _big_integers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _big_integers_as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_big_integers_as_text(item) for item in value]
    return str(value) if isinstance(value, int) and abs(value) >= 2**53 else value


def calls_of(value: Any) -> list[Mapping[str, Any]]:
    """The calls of a batch; empty if `value` is none."""
    return mappings(value.get("action_requests")) if isinstance(value, Mapping) else []


def is_call(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "tool_approval"


def place(interrupt: Interrupt, index: int) -> str:
    """The name of a call that has no usable id of its own."""
    return f"{interrupt.id}:{index}"


def call_request(
    interrupt: Interrupt, index: int, name: Any, args: Any, allowed: Iterable[str], **more: Any
) -> HumanRequest:
    """The request to decide on a call. Arguments that can't be shown as they are can't be approved."""
    shown, is_exact = exact_form(args or {})
    shown = shown if isinstance(shown, dict) else {"value": shown}
    may = set(allowed) - (set() if is_exact and is_readable(shown) else {"approve"})
    fields = {"call_id": place(interrupt, index), **more}
    return HumanRequest(
        interrupt_id=interrupt.id,
        name=worded(json_form(name)),
        args=shown,
        args_sha256=args_sha256(shown),
        allowed=[action for action in ACTIONS if action in may],
        **fields,
    )


class CallBatch:
    """One interrupt for the calls of a model's message. The middleware matches answers to calls by their order."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._calls = calls_of(interrupt.value)

    @property
    def requests(self) -> list[HumanRequest]:
        allowed = {
            worded(json_form(config.get("action_name"))): items(config.get("allowed_decisions"))
            for config in mappings(self._interrupt.value.get("review_configs"))
        }
        return [
            _request(self._interrupt, index, call, map(str, allowed.get(worded(json_form(call.get("name", ""))), ())))
            for index, call in enumerate(self._calls)
        ]

    def resume(self, decisions: Sequence[HumanDecision]) -> Any:
        return {"decisions": [_answer(decision) for decision in decisions]}


class CallApproval:
    """One interrupt for one call."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._decisions = decision_schemas(interrupt)

    @property
    def requests(self) -> list[HumanRequest]:
        call: Mapping[str, Any] = self._interrupt.value
        if set(self._decisions) == {"respond"}:
            question = worded(json_form(call.get("description") or call))
            schema = message_schema(self._interrupt)
            answer = HumanRequest(
                interrupt_id=self._interrupt.id, question=question, response_schema=schema, allowed=["answer"]
            )
            return [answer]
        request = _request(self._interrupt, 0, call, self._decisions or ACTIONS)
        schema = args_schema(self._interrupt) if "edit" in request.allowed else None
        return [request.model_copy(update={"response_schema": schema})]

    def resume(self, decisions: Sequence[HumanDecision]) -> Any:
        [decision] = decisions
        if decision.action == "answer":
            return {"type": "respond", "message": decision.answer}
        return _answer(decision)


def _request(interrupt: Interrupt, index: int, call: Mapping[str, Any], allowed: Iterable[str]) -> HumanRequest:
    named, description = call.get("tool_call_id"), call.get("description")
    has_id = isinstance(named, str) and 0 < len(named) <= LONGEST_ID
    return call_request(
        interrupt,
        index,
        call.get("name", ""),
        call.get("args"),
        allowed,
        question=worded(json_form(description)) if description else None,
        **({"call_id": named} if has_id else {}),
    )


def _answer(decision: HumanDecision) -> dict[str, Any]:
    """`decision` in the middleware's form."""
    match decision.action:
        case "edit":
            return {"type": "edit", "edited_action": {"name": decision.name, "args": decision.edited_args}}
        case "expire":
            return {"type": "reject", "message": EXPIRED}
        case "reject" if decision.message:
            return {"type": "reject", "message": decision.message}
        case action:
            return {"type": action}
