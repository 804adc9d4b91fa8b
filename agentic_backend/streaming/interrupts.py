"""LangGraph interrupts as requests to a person. Pure functions."""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
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
    # As JSON first, so that whatever a graph asks with can be shown and stored.
    value = plain({"value": interrupt.value}).get("value")
    if not isinstance(value, dict):
        return [HumanRequest(interrupt_id=interrupt.id, question=_text(value), allowed=["answer"])]
    calls = _mappings(value.get("action_requests"))
    if calls:
        configs = _mappings(value.get("review_configs"))
        allowed = {_text(config.get("action_name")): _list(config.get("allowed_decisions")) for config in configs}
        return [_approval(interrupt.id, call, allowed) for call in calls]
    question = value.get("question") or value.get("message") or value.get("title") or value
    choices = [_choice(choice) for choice in _list(value.get("choices")) or _list(value.get("options"))]
    return [
        HumanRequest(interrupt_id=interrupt.id, question=_text(question), choices=choices or None, allowed=["answer"])
    ]


def _approval(interrupt_id: str, call: Mapping[str, Any], allowed: Mapping[str, list[Any]]) -> HumanRequest:
    name, args = _text(call.get("name", "")), plain(call.get("args") or {})
    return HumanRequest(
        interrupt_id=interrupt_id,
        call_id=_text(call["id"]) if call.get("id") else None,
        name=name,
        args=args,
        args_sha256=args_sha256(args),
        question=_text(call["description"]) if call.get("description") else None,
        allowed=[_text(decision) for decision in allowed.get(name, [])],
    )


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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in _list(value) if isinstance(item, Mapping)]
