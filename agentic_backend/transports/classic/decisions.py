"""What older clients show of a pause, and how they answer: one question at a time, with choices or free text. Pure.

`checkpoint_id`, which they give back as they got it, names the request and how its answer is meant:
`call:<args_sha256>:<call_id>`, `answer:<interrupt_id>` (a text or a choice, as it is), `open:<interrupt_id>` (yes, no,
or a text), `json:<interrupt_id>` (a text or a choice that is JSON).
"""

import json
from collections.abc import Mapping
from typing import Any

from agentic_backend.errors import BadFrame
from agentic_backend.exact_json import read_exactly
from agentic_backend.protocol.events import HumanRequest, HumanRequests
from agentic_backend.text.invisible_characters import shown, shown_json
from agentic_backend.transports.classic.answer_schemas import choices_of, is_text
from agentic_backend.transports.people.asked_value import unshown_of

_YES, _NO, _IN_WORDS = "yes", "no", "text"
_APPROVALS = {"approve": "Approve", "reject": "Reject"}
_AS_APPROVALS: dict[Any, str] = {
    **{action: action for action in _APPROVALS},
    _YES: "approve",
    _NO: "reject",
    True: "approve",
    False: "reject",
}

Fields = dict[str, Any]


def classic_request(payload: HumanRequests) -> Fields:
    """The fields that show the first of the open requests; the next one comes when it is answered."""
    request = payload.requests[0]
    value = request.value if isinstance(request.value, Mapping) else {}
    fields: Fields = {"question": _question(request, payload.title)}
    if isinstance(value.get("stage"), str):
        fields["stage"] = value["stage"]
    if payload.title is None and request.call_id is not None:
        fields["title"] = "Approval needed"
    if request.call_id is not None:
        return fields | _approval(request, fields["question"])
    if request.choices:
        return fields | _own_choices(request, value)
    if request.response_schema is not None:
        return fields | _by_schema(request, request.response_schema, fields["question"])
    if value.get("free_text") is True:
        return fields | {"free_text": True, "checkpoint_id": f"answer:{request.interrupt_id}"}
    choices = [
        {"id": _IN_WORDS, "label": "Answer in words", "default": True},
        {"id": _YES, "label": "Yes"},
        {"id": _NO, "label": "No"},
    ]
    return fields | {"choices": choices, "free_text": True, "checkpoint_id": f"open:{request.interrupt_id}"}


def decisions_of(payload: Mapping[str, Any], asked: str | None) -> Fields:
    """The decision in an older client's `payload`, in the form of HumanDecisions.

    `asked` is the `checkpoint_id` that the client was sent last for this exchange, for answers that name none. Raises
    BadFrame, which names the field.
    """
    checkpoint_id = payload.get("checkpoint_id") or asked
    if not isinstance(checkpoint_id, str):
        raise BadFrame("payload.checkpoint_id: expected that of the awaiting_human")
    kind, _, request = checkpoint_id.partition(":")
    if kind == "call":
        return {"decisions": [_decision(request, payload)]}
    answer = {"answer": _answer, "open": _open_answer, "json": _json_answer}.get(kind)
    if answer is None:
        raise BadFrame("payload.checkpoint_id: not that of an awaiting_human")
    return {"answers": {request: answer(payload)}}


def _approval(request: HumanRequest, question: str) -> Fields:
    checkpoint_id = f"call:{request.args_sha256}:{request.call_id}"
    # The first choice is preselected, so that a hasty click rejects.
    choices = [{"id": name, "label": _APPROVALS[name]} for name in ("reject", "approve") if name in request.allowed]
    if choices:
        return {"choices": choices, "checkpoint_id": checkpoint_id}
    elsewhere = "Edit it in a newer client; here" if "edit" in request.allowed else "This can't be decided;"
    return {"question": f"{question}\n\n{elsewhere} it can only be stopped.", "checkpoint_id": checkpoint_id}


def _own_choices(request: HumanRequest, value: Mapping[str, Any]) -> Fields:
    own = value.get("choices")
    defaults = {one.get("id") for one in own if isinstance(one, Mapping) and one.get("default") is True} if own else ()
    choices = [
        choice.model_dump(mode="json") | ({"default": True} if choice.id in defaults else {})
        for choice in request.choices or ()
    ]
    return {"choices": choices, "checkpoint_id": f"answer:{request.interrupt_id}"}


def _by_schema(request: HumanRequest, schema: Mapping[str, Any], question: str) -> Fields:
    checkpoint_id = f"json:{request.interrupt_id}"
    choices = choices_of(schema)
    if choices:
        return {"choices": choices, "checkpoint_id": checkpoint_id}
    if is_text(schema):
        return {"free_text": True, "checkpoint_id": f"answer:{request.interrupt_id}"}
    asked = f"{question}\n\nAnswer with JSON of this schema:\n\n{_block(schema)}"
    return {"question": asked, "free_text": True, "checkpoint_id": checkpoint_id}


def _question(request: HumanRequest, title: str | None) -> str:
    """The question as Markdown, with all that is decided on but the title above it."""
    question = request.question or ("May this tool run?" if request.call_id is not None else "")
    value = request.value
    if request.call_id is not None:
        question = f"{question}\n\n{shown(request.name or '')}:\n\n{_block(request.args)}"
    elif isinstance(value, str) and value.startswith(question.removesuffix("…")):
        # The question may be the beginning of a long text.
        return value
    unshown = unshown_of(request, title)
    is_told = unshown in (None, {}, []) or json.dumps(unshown, separators=(",", ":"), ensure_ascii=False) == question
    return question if is_told else f"{question}\n\n{_block(unshown)}"


def _block(value: Any) -> str:
    """The value as indented code, which no text in it can end: JSON escapes its line breaks, and what nobody sees."""
    lines = shown_json(value, 2).split("\n")
    return "\n".join(f"    {line}" for line in lines)


def _decision(request: str, payload: Mapping[str, Any]) -> Fields:
    args_sha256, _, call_id = request.partition(":")
    chosen, note = _chosen(payload), _note(payload)
    action = _AS_APPROVALS.get(chosen) if isinstance(chosen, str | bool) else None
    if action is None:
        raise BadFrame("payload.choice_id: expected approve or reject")
    decision = {"call_id": call_id, "args_sha256": args_sha256, "action": action}
    if note and action == "approve":
        raise BadFrame("payload.text: an approval has no note; reject with one, or approve without")
    return decision | ({"message": note} if note else {})


def _answer(payload: Mapping[str, Any]) -> Any:
    chosen, note = _chosen(payload), _note(payload)
    if note and chosen is not None:
        raise BadFrame("payload.text: what is chosen has no note")
    return _given(note if chosen is None else chosen)


def _open_answer(payload: Mapping[str, Any]) -> Any:
    chosen, note = payload.get("choice_id"), _note(payload)
    if chosen in (_YES, _NO):
        if note:
            raise BadFrame("payload.text: yes and no have no note; choose to answer in words")
        return chosen == _YES
    answer = payload.get("answer") if chosen in (None, _IN_WORDS) else None
    # Some clients repeat the choice as the answer.
    return _given(note or (None if answer == chosen else answer))


def _json_answer(payload: Mapping[str, Any]) -> Any:
    chosen = _chosen(payload)
    given = _given(_note(payload) if chosen is None else chosen)
    if not isinstance(given, str):
        return given
    try:
        return read_exactly(given)
    except (ValueError, RecursionError):
        # The answer's schema says whether a text will do.
        return given


def _chosen(payload: Mapping[str, Any]) -> Any:
    chosen = payload.get("choice_id")
    return payload.get("answer") if chosen is None else chosen


def _note(payload: Mapping[str, Any]) -> str:
    note = payload.get("text") or payload.get("notes") or ""
    if not isinstance(note, str):
        raise BadFrame("payload.text: expected a text")
    return note.strip()


def _given(answer: Any) -> Any:
    if answer is None or answer == "":
        raise BadFrame("payload.answer: expected an answer")
    return answer
