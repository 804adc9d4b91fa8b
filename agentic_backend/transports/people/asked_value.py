"""What of a request's `value`, the payload of the graph's interrupt, a client is shown in no other field. Pure.

Nothing may be decided unseen: a field is left out only where its content is shown as the question, the title, the
stage, the choices or the call. What isn't is shown as it is.
"""

from collections.abc import Mapping
from typing import Any

from agentic_backend.protocol.events import Choice, HumanRequest
from agentic_backend.streaming.people.wording import items, worded

Fields = dict[str, Any]

_ALLOWED = frozenset({"allow_accept", "allow_edit", "allow_respond", "allow_ignore"})
_OF_A_REVIEW = frozenset({"action_name", "allowed_decisions", "args_schema"})


def unshown_of(request: HumanRequest, title: str | None) -> Any:
    """The rest of the value; None, or an empty object or list, if there is none."""
    value = request.value
    if isinstance(value, Mapping) and isinstance(value.get("stage"), str):
        value = {name: item for name, item in value.items() if name != "stage"}
    if request.call_id is not None:
        return _rest_of_calls(value, request) if isinstance(value, list) else _rest_of_call(value, request)
    if not isinstance(value, Mapping):
        return None if value == request.question else value
    used = next((name for name in ("choices", "options") if items(value.get(name))), None)
    return {
        name: item
        for name, item in value.items()
        if item != request.question
        and not (name == "title" and item == title)
        and not (name == "free_text" and isinstance(item, bool))
        and not (name == used and _are_shown(item, request.choices or []))
    }


def _rest_of_call(call: Any, request: HumanRequest) -> Any:
    """What is left of the call, or of an object around it, without what the request shows of it."""
    if not isinstance(call, Mapping):
        return call
    rest = {name: _rest_of_field(name, item, request) for name, item in call.items()}
    return {name: item for name, item in rest.items() if item not in (None, {}, [])}


def _rest_of_field(name: str, item: Any, request: HumanRequest) -> Any:
    match name:
        case "name" | "action":
            is_shown = item == request.name
        case "args":
            is_shown = (item or {}) == request.args
        case "description":
            is_shown = not item or item == request.question
        case "type":
            is_shown = item == "tool_approval"
        case "tool_call_id":
            is_shown = isinstance(item, str)
        case "action_request":
            return _rest_of_call(item, request)
        case "action_requests" if isinstance(item, list):
            return _rest_of_calls(item, request)
        case "review_configs" if isinstance(item, list):
            return [rest for rest in (_without(_OF_A_REVIEW, review) for review in item) if rest != {}]
        case "config":
            return _without(_ALLOWED, item)
        case _:
            is_shown = False
    return None if is_shown else item


def _rest_of_calls(calls: list[Any], request: HumanRequest) -> list[Any]:
    """The rest of the request's own call: the others have requests of their own. Of all, if none can be told apart."""
    own = [call for call in calls if _is_own(call, request)] or calls
    return [rest for rest in (_rest_of_call(call, request) for call in own) if rest != {}]


def _is_own(call: Any, request: HumanRequest) -> bool:
    if not isinstance(call, Mapping):
        return False
    asked = call.get("action_request", call)
    if not isinstance(asked, Mapping):
        return False
    return asked.get("action", asked.get("name")) == request.name and (asked.get("args") or {}) == request.args


def _without(names: frozenset[str], item: Any) -> Any:
    return {name: one for name, one in item.items() if name not in names} if isinstance(item, Mapping) else item


def _are_shown(own: list[Any], choices: list[Choice]) -> bool:
    """Whether the choices are all that `own`, the list they were read from, has."""
    return len(own) == len(choices) and all(map(_is_shown, own, choices))


def _is_shown(own: Any, choice: Choice) -> bool:
    if not isinstance(own, Mapping):
        return worded(own) == choice.label or own == choice.label
    shown = {"id": choice.id, "label": choice.label, "description": choice.description}
    return all(
        isinstance(item, bool)
        if name == "default"
        else name in shown and (not item or item == shown[name] or worded(item) == shown[name])
        for name, item in own.items()
    )
