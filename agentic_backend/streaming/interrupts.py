"""LangGraph interrupts as requests to a person. Pure functions."""

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785
from langgraph.types import Interrupt

from agentic_backend.protocol.events import Choice, HumanRequest
from agentic_backend.streaming.content import plain


def args_sha256(args: Mapping[str, Any]) -> str:
    """The hex SHA-256 of the arguments' canonical JSON (RFC 8785)."""
    try:
        canonical = rfc8785.dumps(dict(args))
    except rfc8785.CanonicalizationError:
        # Integers beyond 2**53 have no canonical JSON number; their digits stand for them.
        canonical = rfc8785.dumps(_big_integers_as_text(dict(args)))
    return hashlib.sha256(canonical).hexdigest()


def _big_integers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _big_integers_as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_big_integers_as_text(item) for item in value]
    return str(value) if isinstance(value, int) and abs(value) >= 2**53 else value


def requests_of(interrupt: Interrupt) -> list[HumanRequest]:
    """What `interrupt` asks: tool calls to approve (HumanInTheLoopMiddleware's form), or a question."""
    value = interrupt.value
    if isinstance(value, Mapping) and isinstance(value.get("action_requests"), list):
        allowed = {
            str(config.get("action_name")): [str(decision) for decision in config.get("allowed_decisions", [])]
            for config in value.get("review_configs", [])
            if isinstance(config, Mapping)
        }
        return [
            _approval(interrupt.id, request, allowed)
            for request in value["action_requests"]
            if isinstance(request, Mapping)
        ]
    if isinstance(value, Mapping):
        question = value.get("question") or value.get("message") or value.get("title")
        choices = [_choice(choice) for choice in value.get("choices") or value.get("options") or []]
        text = str(question) if question else str(plain(value))
        return [HumanRequest(interrupt_id=interrupt.id, question=text, choices=choices or None, allowed=["answer"])]
    return [HumanRequest(interrupt_id=interrupt.id, question=str(value), allowed=["answer"])]


def _approval(interrupt_id: str, request: Mapping[str, Any], allowed: dict[str, list[str]]) -> HumanRequest:
    name, args = str(request.get("name", "")), plain(request.get("args") or {})
    description = request.get("description")
    return HumanRequest(
        interrupt_id=interrupt_id,
        call_id=str(request["id"]) if request.get("id") else None,
        name=name,
        args=args,
        args_sha256=args_sha256(args),
        question=str(description) if description else None,
        allowed=allowed.get(name, []),
    )


def _choice(choice: Any) -> Choice:
    if isinstance(choice, Mapping):
        label = choice.get("label") or choice.get("id") or ""
        description = choice.get("description")
        return Choice(
            id=str(choice.get("id") or label),
            label=str(label),
            description=str(description) if description else None,
        )
    return Choice(id=str(choice), label=str(choice))
