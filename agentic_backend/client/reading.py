"""From JSON to the protocol's models, leniently, as docs/protocol.md asks of clients ("What may change").

Unknown types of events, of activities, of parts and of links are ignored, and so are unknown fields at any depth. An
unknown channel is an `observation`, an unknown finish reason `other`, and the status of a `final` that is unknown an
`error`.
"""

from collections.abc import Iterable
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from agentic_backend.client.errors import Unreadable
from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Delta,
    Event,
    ExchangeError,
    ExchangeEvent,
    Final,
    FollowingSessions,
    FrameRefused,
    Idle,
    Pong,
    Reset,
    SessionChanged,
    SessionDeleted,
    Started,
    Stream,
)
from agentic_backend.protocol.frames import LONGEST_ID
from agentic_backend.protocol.messages import Channel, ExchangeStatus, FinishReason
from agentic_backend.protocol.parts import LinkPart, Part
from agentic_backend.protocol.seq import HIGHEST_SEQ

_EVENTS: dict[str, type[Event]] = {
    model.model_fields["type"].default: model
    for model in (
        Started,
        Stream,
        Delta,
        Activity,
        AwaitingHuman,
        Final,
        Reset,
        SessionChanged,
        SessionDeleted,
        FollowingSessions,
        Idle,
        Pong,
    )
}
_ACTIVITIES = get_args(Activity.model_fields["kind"].annotation)
_LINKS = get_args(LinkPart.model_fields["kind"].annotation)
_PARTS = frozenset(part.model_fields["type"].default for part in get_args(get_args(Part)[0]))

Model = TypeVar("Model", bound=BaseModel)


def json_object(data: str | bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises Unreadable."""
    try:
        raw = from_json(data, allow_inf_nan=False)
    except ValueError:
        raise Unreadable("The server sent something that is not JSON.") from None
    if not isinstance(raw, dict):
        raise Unreadable("The server sent something that is not a JSON object.")
    return raw


def event_in(raw: dict[str, Any]) -> Event | None:
    """The event in a JSON object; None if the protocol does not know its type. Raises Unreadable."""
    kind = raw.get("type")
    if kind == "error":
        model: type[Event] | None = ExchangeError if "seq" in raw else FrameRefused
    else:
        model = _EVENTS.get(kind) if isinstance(kind, str) else None
    if model is None or (model is Activity and raw.get("kind") not in _ACTIVITIES):
        return None
    event = value_in(raw, model)
    if isinstance(event, ExchangeEvent) and not _can_be_followed(event):
        raise Unreadable(f"The server sent a {model.__name__} whose place nobody can follow.")
    return event


def value_in(raw: dict[str, Any], model: type[Model]) -> Model:
    """Raises Unreadable, which names the field but not its value."""
    try:
        return model.model_validate(_with_known_values(raw), extra="ignore")
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(map(str, problem["loc"])) or "all of it"
        raise Unreadable(f"The server sent a {model.__name__} that can't be read: {field}: {problem['msg']}") from None


def _can_be_followed(event: ExchangeEvent) -> bool:
    """Whether a `follow` may name its place."""
    ids = [event.exchange_id] if event.session_id is None else [event.exchange_id, event.session_id]
    return 0 < event.seq <= HIGHEST_SEQ and all(0 < len(each) <= LONGEST_ID for each in ids)


def _with_known_values(raw: dict[str, Any]) -> dict[str, Any]:
    """`raw`, with a known value in the place of each that a later server may have added."""
    known = dict(_with_known_channel(raw))
    if "message" in raw:
        known["message"] = _known_message(raw["message"])
    for name, each in (("messages", _known_message), ("partial", _with_known_channel)):
        if isinstance(raw.get(name), list):
            known[name] = [each(value) for value in raw[name]]
    if raw.get("type") == "final" and _is_unknown(raw.get("status"), ExchangeStatus):
        known["status"] = ExchangeStatus.ERROR
    return known


def _known_message(message: Any) -> Any:
    known = _with_known_channel(message)
    if not isinstance(known, dict):
        return known
    if isinstance(known.get("parts"), list):
        known["parts"] = [part for part in known["parts"] if not _is_unknown_part(part)]
    metadata = known.get("metadata")
    if isinstance(metadata, dict) and _is_unknown(metadata.get("finish_reason"), FinishReason):
        known["metadata"] = metadata | {"finish_reason": FinishReason.OTHER}
    return known


def _with_known_channel(value: Any) -> Any:
    """A copy of a message, a delta or a partial text."""
    if not isinstance(value, dict):
        return value
    return value | ({"channel": Channel.OBSERVATION} if _is_unknown(value.get("channel"), Channel) else {})


def _is_unknown_part(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    is_link = part.get("type") == "link"
    return _is_unknown(part.get("kind"), _LINKS) if is_link else _is_unknown(part.get("type"), _PARTS)


def _is_unknown(value: Any, known: Iterable[str]) -> bool:
    return isinstance(value, str) and value not in set(known)
