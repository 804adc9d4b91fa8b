"""What an exchange asks a person, as forms of MCP's elicitation, and the filled-in forms as decisions. Pure.

A form's id names the exchange, and what was asked with the hash of the arguments that were shown: an answer counts for
just that, on whichever instance it arrives.
"""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from pydantic import ValidationError

from agentic_backend.errors import BadFrame
from agentic_backend.exact_json import read_exactly
from agentic_backend.protocol.events import Choice, HumanRequest, HumanRequests
from agentic_backend.protocol.frames import Decision, HumanDecisions, first_problem
from agentic_backend.text.invisible_characters import shown, shown_json
from agentic_backend.transports.mcp.messages import Json
from agentic_backend.transports.people.asked_value import unshown_of

_ID = re.compile(r"(?P<exchange_id>[0-9a-f]{32})\.(?P<mark>[0-9a-f]{32})")
_DECISIONS = {"approve": "Approve", "reject": "Reject"}
_LONGEST_REASON = 4_000
_OF_ANY = ("title", "description", "default")
_FIELDS = {
    "string": ("minLength", "maxLength", "format", "enum"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
}
"""What MCP lets a form say of a field, by its type."""
_FORMATS = ("email", "uri", "date", "date-time")


class ElicitationId(NamedTuple):
    exchange_id: str
    mark: str

    @classmethod
    def of(cls, exchange_id: str, request: HumanRequest) -> "ElicitationId":
        named = json.dumps([request.interrupt_id, request.call_id, request.args_sha256])
        return cls(exchange_id, sha256(named.encode()).hexdigest()[:32])

    @classmethod
    def decode(cls, text: object) -> "ElicitationId":
        """Raises BadFrame."""
        found = _ID.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise BadFrame("id: not that of a request of this server")
        return cls(*found.groups())

    def encode(self) -> str:
        return f"{self.exchange_id}.{self.mark}"

    def request_in(self, asked: HumanRequests) -> HumanRequest | None:
        """What it names, as long as that is asked."""
        return next((each for each in asked.requests if self.of(self.exchange_id, each) == self), None)


def form_of(request: HumanRequest, title: str | None = None) -> Json | None:
    """The parameters of `elicitation/create`; None where no form can decide, as on a call that may only be edited."""
    message = "\n\n".join(filter(None, [title, *_words(request, title)]))
    if request.call_id is None:
        return {"message": message, "requestedSchema": _answer_schema(request)}
    allowed = [action for action in _DECISIONS if action in request.allowed]
    if not allowed:
        return None
    decision: Json = {"type": "string", "title": "Decision", "enum": allowed}
    decision["enumNames"] = [_DECISIONS[action] for action in allowed]
    fields = {"decision": decision}
    if "reject" in allowed:
        told = "What the agent is told of a rejection."
        fields["reason"] = {"type": "string", "title": "Reason", "description": told, "maxLength": _LONGEST_REASON}
    return {"message": message, "requestedSchema": {"type": "object", "properties": fields, "required": ["decision"]}}


def words_of(asked: HumanRequests) -> str:
    """The same in words, for a client that has no forms."""
    lines = [asked.title, *(line for request in asked.requests for line in _words(request, asked.title))]
    return "\n\n".join(filter(None, lines))


def decisions_of(request: HumanRequest, result: Json) -> HumanDecisions | None:
    """What a person has answered to a form; None if they have not decided. Call it in a thread. Raises BadFrame."""
    action, content = result.get("action"), result.get("content")
    if action == "decline" and request.call_id is not None and "reject" in request.allowed:
        return HumanDecisions(decisions=[_decision(request, "reject", None)])
    if action != "accept":
        return None
    if not isinstance(content, dict):
        raise BadFrame("result.content: expected what the person has filled in")
    if request.call_id is None:
        return HumanDecisions(answers={request.interrupt_id: _answer(request, content)})
    chosen = content.get("decision")
    reason = content.get("reason") if chosen == "reject" else None
    return HumanDecisions(decisions=[_decision(request, chosen, reason or None)])


def _decision(request: HumanRequest, action: Any, reason: Any) -> Decision:
    told = {"call_id": request.call_id, "args_sha256": request.args_sha256, "action": action, "message": reason}
    try:
        return Decision.model_validate(told)
    except ValidationError as error:
        raise BadFrame(f"result.content: {first_problem(error, 'decision')}") from None


def _words(request: HumanRequest, title: str | None) -> list[str]:
    """All that is decided on, in lines: also what of the graph's value no other field shows."""
    value = request.value
    stage = value.get("stage") if isinstance(value, Mapping) else None
    lines = [stage] if isinstance(stage, str) else []
    if request.call_id is not None:
        lines += [
            request.question or "May this tool run?",
            f"{shown(request.name or '')}:",
            shown_json(request.args, 2),
        ]
    elif request.question is not None:
        lines.append(request.question)
    unshown = unshown_of(request, title)
    if unshown not in (None, {}, []):
        lines.append(unshown if isinstance(unshown, str) else shown_json(unshown, 2))
    return lines + [_choice(choice) for choice in request.choices or ()]


def _choice(choice: Choice) -> str:
    described = f" ({shown(choice.description)})" if choice.description else ""
    return f"- {shown(choice.id)}: {shown(choice.label)}{described}"


def _answer_schema(request: HumanRequest) -> Json:
    """A form has no values within values, so any other answer is asked for as one field: `answer`."""
    if (fields := _own_fields(request)) is not None:
        required = [name for name in (request.response_schema or {}).get("required", ()) if name in fields]
        return {"type": "object", "properties": fields, "required": required}
    if request.choices:
        field: Json = {"type": "string", "enum": [choice.id for choice in request.choices]}
        field["enumNames"] = [choice.label for choice in request.choices]
    else:
        field = _field(request.response_schema or {"type": "string"}) or _JSON_TEXT
    return {"type": "object", "properties": {"answer": {"title": "Answer", **field}}, "required": ["answer"]}


_JSON_TEXT: Json = {"type": "string", "description": "JSON, in the form that is asked for."}


def _own_fields(request: HumanRequest) -> Json | None:
    """The fields of an answer that is an object of plain values; None if it is no such object."""
    schema = request.response_schema or {}
    properties = schema.get("properties")
    if request.choices or schema.get("type") != "object" or not isinstance(properties, dict) or not properties:
        return None
    fields = {name: _field(field) for name, field in properties.items()}
    return None if None in fields.values() else fields


def _field(schema: Any) -> Json | None:
    """The field of a form for a plain value; None for any other."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        return None
    kept = {name: schema[name] for name in (*_OF_ANY, *_FIELDS[kind]) if name in schema}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    return {"type": kind, **kept}


def _answer(request: HumanRequest, content: Json) -> Any:
    if _own_fields(request) is not None:
        return content
    answer = content.get("answer")
    is_plain = request.choices or _field(request.response_schema or {"type": "string"}) is not None
    if is_plain or not isinstance(answer, str):
        return answer
    try:
        return read_exactly(answer)
    except (ValueError, RecursionError):
        # The answer's schema says whether a text will do.
        return answer
