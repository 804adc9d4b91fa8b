"""Converts LangGraph interrupts to requests to a person, and decisions to the values that resume the graph. Pure.

An interrupt is about one tool call (HumanInTheLoopMiddleware with `interrupt_mode="per_call"`), about a batch of calls
(the same middleware without it) or, with any other value, a question.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
import rfc8785
from langgraph.types import Interrupt

from agentic_backend.errors import ApprovalMismatch
from agentic_backend.protocol.events import Choice, HumanRequest, HumanRequests
from agentic_backend.protocol.frames import LONGEST_ID
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.content import plain

_ACTIONS = ("approve", "reject", "edit")
_EXPIRED = "Nobody decided in time."


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


def human_requests(interrupts: Iterable[Interrupt]) -> HumanRequests | None:
    """All requests of a paused graph, each call with a unique id; None if there are none."""
    distinct = {interrupt.id: interrupt for interrupt in interrupts}.values()
    asked = [
        (_place(interrupt, index), request)
        for interrupt in distinct
        for index, request in enumerate(requests_of(interrupt))
    ]
    requests: list[HumanRequest] = []
    # A call whose own id looks like a place is named by its place, so that a place names one call only.
    taken = {place for place, _ in asked}
    for place, request in asked:
        if request.call_id in taken:
            # Some models number their calls, so that agents that work in parallel may use the same ids.
            request = request.model_copy(update={"call_id": place})
        if request.call_id is not None:
            taken.add(request.call_id)
        requests.append(request)
    return HumanRequests(title=next(_titles(distinct), None), requests=requests) if requests else None


def asked_again(requests: HumanRequests, decided: int) -> HumanRequests:
    """`requests` with new interrupt ids, if the exchange already has `decided` decisions.

    All interrupts of one run of a node share an id; the new ids keep later requests apart from decided ones.
    """
    if not decided:
        return requests
    named = [one.model_copy(update={"interrupt_id": f"{one.interrupt_id}.{decided}"}) for one in requests.requests]
    return requests.model_copy(update={"requests": named})


def interrupt_id_of(name: str) -> str:
    """LangGraph's id of the interrupt that a request or decision names; LangGraph's ids contain no dot."""
    return name.partition(".")[0]


def requests_of(interrupt: Interrupt) -> list[HumanRequest]:
    """The requests of `interrupt`: tool calls, each with its `call_id` and `args_sha256`, or one question."""
    value = _value(interrupt)
    if calls := _batch(value):
        configs = _mappings(value.get("review_configs"))
        allowed = {_text(config.get("action_name")): _list(config.get("allowed_decisions")) for config in configs}
        return [
            _approval(interrupt, index, call, allowed.get(_text(call.get("name", "")), []))
            for index, call in enumerate(calls)
        ]
    if _is_call(value):
        decisions = _decision_schemas(interrupt)
        if set(decisions) != {"respond"}:
            return [_approval(interrupt, 0, value, decisions or _ACTIONS)]
        value = value.get("description") or value
    if not isinstance(value, dict):
        return [HumanRequest(interrupt_id=interrupt.id, question=_text(value), allowed=["answer"])]
    question = value.get("question") or value.get("message") or value.get("title") or value
    choices = [_choice(choice) for choice in _list(value.get("choices")) or _list(value.get("options"))]
    return [
        HumanRequest(interrupt_id=interrupt.id, question=_text(question), choices=choices or None, allowed=["answer"])
    ]


def resume_values(interrupts: Iterable[Interrupt], decisions: Iterable[HumanDecision]) -> dict[str, Any]:
    """The values for `Command(resume=…)`: by interrupt id, the answer in the form that the interrupt expects.

    An interrupt that `decisions` don't settle in full is left out. Raises ApprovalMismatch if a decision is about other
    arguments than its call has.
    """
    made: dict[str, dict[str | None, HumanDecision]] = {}
    for decision in decisions:
        made.setdefault(interrupt_id_of(decision.interrupt_id), {})[decision.call_id] = decision
    values: dict[str, Any] = {}
    for interrupt in interrupts:
        settled = made.get(interrupt.id, {})
        calls = _batch(_value(interrupt))
        if calls and len(settled) == len(calls):
            # The middleware matches answers to calls by their order.
            places = [_place(interrupt, index) for index in range(len(calls))]
            answers = [
                # The place first, because a call's own id may name another call with the same id.
                _answer(request, settled[place if place in settled else request.call_id])
                for place, request in zip(places, requests_of(interrupt), strict=True)
            ]
            values[interrupt.id] = {"decisions": answers}
        elif settled and not calls:
            [request], [decision] = requests_of(interrupt), settled.values()
            is_reply = decision.action == "answer" and _is_call(_value(interrupt))
            answer = _answer(request, decision)
            values[interrupt.id] = {"type": "respond", "message": answer} if is_reply else answer
    return values


def response_schemas(interrupts: Iterable[Interrupt]) -> dict[str, Mapping[str, Any]]:
    """The JSON Schema of a person's input, edited arguments or an answer, by interrupt id.

    Interrupts for which the graph provides no schema are left out; a batch of calls has none.
    """
    schemas: dict[str, Mapping[str, Any]] = {}
    for interrupt in interrupts:
        schema: Any = interrupt.response_schema
        if _is_call(_value(interrupt)):
            schemas_by_type = _decision_schemas(interrupt)
            edit, respond = schemas_by_type.get("edit"), schemas_by_type.get("respond")
            schema = _property(interrupt, _property(interrupt, edit, "edited_action"), "args")
            schema = schema or _property(interrupt, respond, "message")
        if isinstance(schema, Mapping):
            schemas[interrupt.id] = {"$defs": _definitions(interrupt), **schema}
    return schemas


def _value(interrupt: Interrupt) -> Any:
    """The interrupt's value as JSON that can be shown and stored."""
    value = interrupt.value
    if calls := _batch(value):
        return {**_fields(value), "action_requests": [_fields(call) for call in calls]}
    return _fields(value) if _is_call(value) else _plain(value)


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as JSON, each on its own, so that arguments that can't be shown don't hide the other fields."""
    return {str(name): _plain(field) for name, field in value.items()}


def _plain(value: Any) -> Any:
    shown = plain({"value": value})
    return shown.get("value", shown)


def _titles(interrupts: Iterable[Interrupt]) -> Iterator[str]:
    for value in map(_value, interrupts):
        if isinstance(value, dict) and value.get("title") and (value.get("question") or value.get("message")):
            yield _text(value["title"])


def _batch(value: Any) -> list[Mapping[str, Any]]:
    return _mappings(value.get("action_requests")) if isinstance(value, Mapping) else []


def _is_call(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "tool_approval"


def _approval(interrupt: Interrupt, index: int, call: Mapping[str, Any], allowed: Iterable[Any]) -> HumanRequest:
    args = plain(call.get("args") or {})
    named = call.get("tool_call_id")
    may = set(map(_text, allowed))
    if "_unreadable" in args:
        # A person can't approve arguments that can't be shown.
        may.discard("approve")
    return HumanRequest(
        interrupt_id=interrupt.id,
        call_id=named if isinstance(named, str) and 0 < len(named) <= LONGEST_ID else _place(interrupt, index),
        name=_text(call.get("name", "")),
        args=args,
        args_sha256=args_sha256(args),
        question=_text(call["description"]) if call.get("description") else None,
        allowed=[action for action in _ACTIONS if action in may],
    )


def _place(interrupt: Interrupt, index: int) -> str:
    return f"{interrupt.id}:{index}"


def _answer(request: HumanRequest, decision: HumanDecision) -> Any:
    """`decision` in the middleware's form; the answer to a question is passed on unchanged."""
    if decision.args_sha256 != request.args_sha256:
        raise ApprovalMismatch
    match decision.action:
        case "answer":
            return decision.answer
        case "edit":
            return {"type": "edit", "edited_action": {"name": request.name, "args": decision.edited_args}}
        case "expire":
            return {"type": "reject", "message": _EXPIRED}
        case "reject" if decision.message:
            return {"type": "reject", "message": decision.message}
        case action:
            return {"type": action}


def _decision_schemas(interrupt: Interrupt) -> dict[str, Mapping[str, Any]]:
    """The schemas of the decisions that the middleware allows on a call, by type."""
    schema = interrupt.response_schema
    if not isinstance(schema, dict):
        return {}
    found = {}
    for option in _mappings(schema.get("oneOf")) or [schema]:
        decision = _resolved(interrupt, option)
        kind = _property(interrupt, decision, "type") or {}
        if isinstance(kind.get("const"), str):
            found[kind["const"]] = decision
    return found


def _property(interrupt: Interrupt, schema: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    properties = schema.get("properties") if schema else None
    found = properties.get(name) if isinstance(properties, Mapping) else None
    return _resolved(interrupt, found) if isinstance(found, Mapping) else None


def _resolved(interrupt: Interrupt, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    found = _definitions(interrupt).get(reference.rsplit("/", 1)[1]) if isinstance(reference, str) else schema
    return found if isinstance(found, Mapping) else {}


def _definitions(interrupt: Interrupt) -> Mapping[str, Any]:
    """The definitions that a response schema refers to; pydantic, which generates it, puts them in `$defs`."""
    schema = interrupt.response_schema
    found = schema.get("$defs") if isinstance(schema, dict) else None
    return found if isinstance(found, Mapping) else {}


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
