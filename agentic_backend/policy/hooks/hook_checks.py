"""Checks what a module has answered: types, sizes and texts that can be stored. Modules may answer anything."""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from agentic_backend.policy.hook_result import Audit, Extraction, HookResult, Modifications
from agentic_backend.protocol.parts import CodePart, CustomPart, Part, TextPart, ToolCallPart, ToolResultPart, text_of

TEXT_BYTES = 1024 * 1024
"""The most characters of a text that a module puts in place of another, unless that one was longer."""
_ADDITIONS, _ADDITIONS_LENGTH = 16, 16_384
_EXTRACTIONS, _EXTRACTION_SIZE, _DEPTH = 32, 65_536, 16
PARTS = 100
"""The most parts of a message that a module puts in place of another."""
_REASON, _PATTERNS = 1_000, 50
_SAFE_INTEGER = 2**53
_OF_THE_SERVER = (ToolCallPart, ToolResultPart, CustomPart)
_PARTS_OF_A_PERSON = tuple(kind for kind in get_args(get_args(Part)[0]) if kind not in _OF_THE_SERVER)
_ANY_PART: TypeAdapter[Part] = TypeAdapter(Part)


class InvalidResult(Exception):
    """The answer of a module that can't be used; the text says why, without quoting it."""


def checked(result: object, longest: int = TEXT_BYTES) -> HookResult:
    """A copy of `result`, of the server's own types, that the module can no longer change.

    `longest` bounds its texts, in characters. Raises InvalidResult, and whatever the author's properties raise: to read
    a result is to run the module, so it belongs into the module's guard.
    """
    if not isinstance(result, HookResult):
        raise InvalidResult(f"expected a HookResult, not {type(result).__name__}")
    return HookResult(
        action=_action(result.action),
        modifications=_modifications(result.modifications, longest),
        block_reason=_text(result.block_reason, longest)[:_REASON],
        direct_response=_text(result.direct_response, longest),
        extractions=[_extraction(one) for one in _some(result.extractions, _EXTRACTIONS)],
        audit=None if result.audit is None else _audit(result.audit),
    )


def _action(given: object) -> Literal["continue", "block"]:
    match _text(given, 100):
        case "continue":
            return "continue"
        case "block":
            return "block"
    raise InvalidResult("the action is neither 'continue' nor 'block'")


def replaced(parts: Sequence[Part], new: str | Sequence[Part]) -> list[Part]:
    """`parts` with `new` in place of their texts; a list replaces them all."""
    if not isinstance(new, str):
        return list(new)
    others = [part for part in parts if not isinstance(part, TextPart | CodePart | CustomPart)]
    return [TextPart(text=new), *others]


def _modifications(given: object, longest: int) -> Modifications:
    if not isinstance(given, Modifications):
        raise InvalidResult("the modifications are no Modifications")
    additions = [_text(one, _ADDITIONS_LENGTH) for one in _some(given.prompt_additions, _ADDITIONS)]
    if sum(map(len, additions)) > _ADDITIONS_LENGTH:
        raise InvalidResult("the prompt additions are too long")
    return Modifications(
        message=_message(given.message, longest),
        message_for_model=_message(given.message_for_model, longest),
        response=None if given.response is None else _text(given.response, longest),
        keep_response_for_model=bool(given.keep_response_for_model),
        prompt_additions=[one for one in additions if one.strip()],
    )


def _message(given: object, longest: int) -> str | list[Part] | None:
    if given is None:
        return None
    if isinstance(given, str):
        message: str | list[Part] = _text(given, longest)
        text = message
    else:
        message = [_part(part, longest) for part in _some(given, PARTS)]
        text = text_of(message)
        if len(text) > longest:
            raise InvalidResult("the message is too long")
        # Of other parts, nobody but their author knows whether they say something.
        text = text if all(isinstance(part, TextPart | CodePart) for part in message) else "other parts"
    if not str(text).strip():
        raise InvalidResult("the message is empty")
    return message


def _part(given: object, longest: int) -> Part:
    if not isinstance(given, _PARTS_OF_A_PERSON):
        raise InvalidResult("a part of the message is none that a person can send")
    try:
        # Made anew: it may be of a class of the module's own, or made without its checks.
        part = _ANY_PART.validate_python(_json(given.model_dump(mode="json", warnings=False), [longest], 0))
    except ValidationError:
        raise InvalidResult("a part of the message is not valid") from None
    if type(part) not in _PARTS_OF_A_PERSON:
        raise InvalidResult("a part of the message is none that a person can send")
    return part


def _extraction(given: object) -> Extraction:
    if not isinstance(given, Extraction):
        raise InvalidResult("an extraction is no Extraction")
    if not isinstance(given.data, Mapping):
        raise InvalidResult("the data of an extraction are no mapping")
    items = islice(given.data.items(), _EXTRACTION_SIZE)
    return Extraction(_text(given.type, 100), _json(dict(items), [_EXTRACTION_SIZE], 0))


def _audit(given: object) -> Audit:
    if not isinstance(given, Audit):
        raise InvalidResult("the audit is no Audit")
    return Audit(
        _text(given.reason, TEXT_BYTES)[:_REASON], [_text(one, _REASON) for one in _some(given.patterns, _PATTERNS)]
    )


def _text(given: object, longest: int) -> str:
    if not isinstance(given, str):
        raise InvalidResult(f"expected a text, not {type(given).__name__}")
    # A copy: the text may be of a class of the module's own.
    text = str.__str__(given)
    if len(text) > longest:
        raise InvalidResult("a text is too long")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidResult("a text is no Unicode") from None
    return text


def _some(given: object, most: int) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise InvalidResult(f"expected a list, not {type(given).__name__}")
    items = list(islice(given, most + 1))
    if len(items) > most:
        raise InvalidResult("a list is too long")
    return items


def _json(value: Any, left: list[int], depth: int) -> Any:
    """A copy of a value of JSON; `left[0]` is how many characters and values it may still have."""
    left[0] -= 1 + (str.__len__(value) if isinstance(value, str) else 0)
    if left[0] < 0 or depth > _DEPTH:
        raise InvalidResult("the data is too large or nested too deeply")
    # By the type itself, which can't lie, and as Python's own, without what a class may say instead.
    kind = type(value)
    if value is None or kind is bool:
        return value
    if issubclass(kind, str):
        return _text(value, str.__len__(value))
    if issubclass(kind, int) and abs(number := int.__pos__(value)) < _SAFE_INTEGER:
        return number
    if issubclass(kind, float) and math.isfinite(fraction := float.__pos__(value)):
        return fraction
    if issubclass(kind, list | tuple):
        return [_json(one, left, depth + 1) for one in value]
    if issubclass(kind, dict):
        return {_json_key(key, left): _json(one, left, depth + 1) for key, one in value.items()}
    raise InvalidResult(f"a value of type {kind.__name__} is not JSON")


def _json_key(key: object, left: list[int]) -> str:
    if not isinstance(key, str):
        raise InvalidResult("a key of the data is no text")
    return str(_json(key, left, 0))
