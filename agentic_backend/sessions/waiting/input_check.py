"""Checks a person's input, edited arguments or an answer, against the JSON Schema that a graph provides. Pure.

The schema comes from an author, an MCP server or a client, the value from a client or a model: nothing is fetched, no
regular expression can take long, and only so many steps are made, in so much time. Parts of a schema that can't be
checked here are left to the tool or the graph; what takes too many steps is refused.
"""

import contextlib
import json
import math
import time as clock
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker, ValidationError  # type: ignore[import-untyped]
from jsonschema.exceptions import best_match  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]
from pydantic import TypeAdapter
from pydantic_core import SchemaError, SchemaValidator, core_schema
from pydantic_core import ValidationError as NoMatch
from referencing import Registry

_Check = Callable[..., Iterator[ValidationError] | None]

_LONGEST_NAME = 100
# Each is the check of one keyword on one value, of some ten microseconds.
_MOST_STEPS = 100_000
# Of the thread: a step of a long list takes longer than others, and a busy machine is no reason to give up.
_MOST_CPU_S = 2.0
_steps_left: ContextVar[int] = ContextVar("_steps_left", default=_MOST_STEPS)
_ends_at: ContextVar[float] = ContextVar("_ends_at", default=math.inf)


class TooManySteps(Exception):
    """The check was given up."""


def flaw(value: Any, schema: Mapping[str, Any]) -> str | None:
    """The first mismatch: its path and what the schema expects, never the value itself. None if `value` is valid.

    It may take seconds; call it in a thread.
    """
    try:
        error = mismatch(value, schema, _formats)
        return None if error is None else f"{_place(error)}: {_expected(error)}"
    except TooManySteps:
        return ": takes too long to check against its schema"
    except Exception:
        # An invalid schema can raise almost anything.
        return None


def mismatch(value: Any, schema: Mapping[str, Any], formats: FormatChecker | None = None) -> ValidationError | None:
    """The mismatch that tells most, None if `value` is valid; `formats`: those that are checked.

    Raises TooManySteps, and what jsonschema raises for a schema that can't be followed.
    """
    _steps_left.set(_MOST_STEPS)
    _ends_at.set(clock.thread_time() + _MOST_CPU_S)
    # The library searches for these patterns itself where it looks for unevaluated properties.
    kind = _WithoutUnevaluated if "patternProperties" in repr(schema) else _Validator
    # An empty registry: the library's default one fetches references.
    return best_match(kind(schema, registry=Registry(), format_checker=formats).iter_errors(value))


def _place(error: ValidationError) -> str:
    path = "".join(f".{part}" for part in error.absolute_path)
    return json.dumps(path[:_LONGEST_NAME])[1:-1]


def _expected(error: ValidationError) -> str:
    if error.validator == "required":
        return f"{' and '.join(name for name in error.validator_value if name not in error.instance)} is missing"
    if error.validator == "type":
        return f"expected {error.validator_value}"
    asked = json.dumps(error.validator_value)
    return f"does not meet the schema's {error.validator!r}{f': {asked}' if len(asked) <= _LONGEST_NAME else ''}"


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Check `pattern` with an engine of linear time; patterns that it does not support are not checked."""
    if isinstance(instance, str) and _matches(pattern, instance) is False:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, each in patterns.items():
            for name in [name for name in instance if _matches(pattern, name)]:
                yield from validator.descend(instance[name], each, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """A name is additional only where it is known that no pattern matches it."""
    if isinstance(instance, dict):
        patterns = schema.get("patternProperties", {})
        others = {
            name: value
            for name, value in instance.items()
            if all(_matches(pattern, name) is False for pattern in patterns)
        }
        told = {"properties": schema.get("properties", {})}
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, allowed, others, told)


def _unique_items(validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """In one pass; the library compares each item with each other if they are objects."""
    if unique and isinstance(instance, list):
        _take_steps(len(instance))
        seen = {json.dumps(_told_apart(item), sort_keys=True) for item in instance}
        if len(seen) < len(instance):
            yield ValidationError(f"{instance!r} has non-unique elements")


def _told_apart(value: Any) -> Any:
    """`value` such that values have the same JSON only if JSON Schema takes them as equal: 1 and 1.0, but not true."""
    if isinstance(value, dict):
        return {key: _told_apart(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_told_apart(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _counted(check: _Check) -> _Check:
    """`check` as one of the steps."""

    def counted(*given: Any) -> Iterator[ValidationError] | None:
        _take_steps(1)
        return check(*given)

    return counted


def _take_steps(count: int) -> None:
    """Raises TooManySteps."""
    left = _steps_left.get() - count
    if left < 0 or clock.thread_time() > _ends_at.get():
        raise TooManySteps
    _steps_left.set(left)


def _matches(pattern: str, text: str) -> bool | None:
    """Whether it is found in `text`; None if the engine of linear time does not support it."""
    _take_steps(1)
    with contextlib.suppress(SchemaError):
        try:
            _expression(pattern).validate_python(text)
        except NoMatch:
            return False
        return True
    return None


@lru_cache(maxsize=256)
def _expression(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _format_checker() -> FormatChecker:
    """The formats with a Python type, parsed by pydantic, because LangGraph parses resume values with it too."""
    formats = FormatChecker(formats=())
    kinds = {"date-time": datetime, "date": date, "time": time, "duration": timedelta, "uuid": UUID}
    for name, kind in kinds.items():
        formats.checks(name, raises=ValueError)(TypeAdapter(kind).validate_python)
    return formats


_CHECKS = {
    **Draft202012Validator.VALIDATORS,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
_Validator = extend(Draft202012Validator, {name: _counted(check) for name, check in _CHECKS.items()})
_WithoutUnevaluated = extend(_Validator, {"unevaluatedProperties": lambda *_: None})
_formats = _format_checker()
