"""From JSON to the protocol's models, leniently: what a later server may add is left out.

Unknown types of events, of activities and of parts are ignored, and so are unknown fields at any depth.
"""

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
    Final,
    FrameRefused,
    Idle,
    Pong,
    Reset,
    SessionChanged,
    Started,
    Stream,
)
from agentic_backend.protocol.parts import Part

_EVENTS: dict[str, type[Event]] = {
    model.model_fields["type"].default: model
    for model in (Started, Stream, Delta, Activity, AwaitingHuman, Final, Reset, SessionChanged, Idle, Pong)
}
_ACTIVITIES = get_args(Activity.model_fields["kind"].annotation)
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
        return value_in(raw, ExchangeError if "seq" in raw else FrameRefused)
    model = _EVENTS.get(kind) if isinstance(kind, str) else None
    if model is None or (model is Activity and raw.get("kind") not in _ACTIVITIES):
        return None
    return value_in(raw, model)


def value_in(raw: dict[str, Any], model: type[Model]) -> Model:
    """Raises Unreadable, which names the field but not its value."""
    try:
        return model.model_validate(_with_known_parts(raw), extra="ignore")
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(map(str, problem["loc"])) or "all of it"
        raise Unreadable(f"The server sent a {model.__name__} that can't be read: {field}: {problem['msg']}") from None


def _with_known_parts(raw: dict[str, Any]) -> dict[str, Any]:
    """`raw` whose messages have only parts of known types."""
    known = dict(raw)
    if "message" in raw:
        known["message"] = _known_parts_of(raw["message"])
    if isinstance(raw.get("messages"), list):
        known["messages"] = [_known_parts_of(message) for message in raw["messages"]]
    return known


def _known_parts_of(message: Any) -> Any:
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        return message
    return message | {"parts": [part for part in message["parts"] if not _is_unknown(part)]}


def _is_unknown(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] not in _PARTS
