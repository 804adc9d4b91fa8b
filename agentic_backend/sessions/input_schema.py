"""Checks a person's input, edited arguments or an answer, against the JSON Schema that a graph provides. Pure.

The schema comes from an author or an MCP server, the value from a client: nothing is fetched, no regular expression
can take long, and only so many steps are made. Parts of a schema that can't be checked here are left to the tool or the
graph; what takes too many steps is refused.
"""

import contextlib
import json
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
_steps_left: ContextVar[int] = ContextVar("_steps_left", default=_MOST_STEPS)


class _TooManySteps(Exception):
    pass


def flaw(value: Any, schema: Mapping[str, Any]) -> str | None:
    """The first mismatch: its path and what the schema expects, never the value itself. None if `value` is valid.

    It may take a second; call it in a thread.
    """
    _steps_left.set(_MOST_STEPS)
    try:
        # An empty registry: the library's default one fetches references.
        error = best_match(_Validator(schema, registry=Registry(), format_checker=_formats).iter_errors(value))
        return None if error is None else f"{_place(error)}: {_expected(error)}"
    except _TooManySteps:
        return ": takes too long to check against its schema"
    except Exception:
        # An invalid schema can raise almost anything.
        return None


def _place(error: ValidationError) -> str:
    path = "".join(f".{part}" for part in error.absolute_path)
    return json.dumps(path[:_LONGEST_NAME])[1:-1]


def _expected(error: ValidationError) -> str:
    if error.validator == "required":
        return f"{' and '.join(name for name in error.validator_value if name not in error.instance)} is missing"
    if error.validator == "type":
        return f"expected {error.validator_value}"
    return f"does not meet the schema's {error.validator!r}"


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Check `pattern` with an engine of linear time; patterns that it does not support are not checked."""
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("does not match the pattern")


def _unique_items(validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """In one pass; the library compares each item with each other if they are objects."""
    if unique and isinstance(instance, list):
        seen = {json.dumps(_told_apart(item), sort_keys=True) for item in instance}
        if len(seen) < len(instance):
            yield ValidationError("has non-unique elements")


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
        left = _steps_left.get() - 1
        if left < 0:
            raise _TooManySteps
        _steps_left.set(left)
        return check(*given)

    return counted


def _matches(pattern: str, text: str) -> bool:
    with contextlib.suppress(SchemaError):
        try:
            _expression(pattern).validate_python(text)
        except NoMatch:
            return False
    return True


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


_CHECKS = {**Draft202012Validator.VALIDATORS, "pattern": _pattern, "uniqueItems": _unique_items}
_Validator = extend(Draft202012Validator, {name: _counted(check) for name, check in _CHECKS.items()})
_formats = _format_checker()
