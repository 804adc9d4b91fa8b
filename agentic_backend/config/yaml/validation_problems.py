"""Turns pydantic's errors about a configuration into plain words: the expected and the found value, and the place.

The expectation comes from the model's JSON Schema, or from the key `expected` that a field adds to the schema if its
pattern would make a bad text. Invariant: a value whose path looks like a secret is never shown.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Protocol, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from agentic_backend.config.yaml.located_yaml import ConfigProblem, KeyPath

Schema = Mapping[str, Any]

_SECRET = re.compile(r"key(?!cloak)|token|passw|passphrase|pwd|secret|credential", re.IGNORECASE)
_SHOWN = 80
MOST_PROBLEMS = 100
"""Of one value: to look for a similar key takes a while."""
# Mappings with names of the user's whose values may be secrets.
_SECRET_VALUES = ("options", "env", "headers")


def looks_secret(name: str) -> bool:
    """Whether a setting or variable with this name may hold a secret."""
    return bool(_SECRET.search(name))


class ProblemAt(Protocol):
    """Makes a problem at the place of `path`, or of its key, as `LocatedYaml.problem` does."""

    def __call__(self, path: KeyPath, message: str, *, at_key: bool = False) -> ConfigProblem: ...


def rule_broken(message: str, *at: str | int) -> PydanticCustomError:
    """The error for a validator to raise if a rule across fields is broken; `at` is relative to its model."""
    return PydanticCustomError("rule_broken", "{message}", {"message": message, "at": at})


def validation_problems(
    error: ValidationError, model: type[BaseModel], problem_at: ProblemAt, base: KeyPath = ()
) -> list[ConfigProblem]:
    """A problem for each of the first MOST_PROBLEMS errors that `model` found in the value at `base`."""
    schema = _schema_of(model)
    # A default that follows from another field, which has an error itself, is none of the user's.
    errors = [told for told in error.errors(include_url=False) if told["type"] != "default_factory_not_called"]
    return [_problem(details, schema, problem_at, base) for details in errors[:MOST_PROBLEMS]]


@lru_cache(maxsize=32)
def _schema_of(model: type[BaseModel]) -> Schema:
    # It takes ten milliseconds for an agent, and an import may have hundreds of them.
    try:
        return model.model_json_schema()
    except Exception:
        # An author's model may have types that no schema can tell of.
        return {}


def near_miss(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'port'?"` if one of `known` is close to `word`, else empty."""
    matches = get_close_matches(word, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def schema_at(schema: Schema, path: KeyPath) -> Schema | None:
    """The part of `schema` for the value at `path`; None if no value is allowed there, {} if any is."""
    found: Schema | None = _resolved(schema, schema)
    for part in path:
        found = _child(found, part, schema) if found else found
    return found


def accepts(schema: Schema, kind: str) -> bool:
    """Whether `schema` allows a value of the JSON type `kind`."""
    if "anyOf" in schema:
        return any(accepts(option, kind) for option in schema["anyOf"])
    if "$ref" in schema:
        return kind == "object"
    return bool(schema.get("type", kind) == kind)


def _resolved(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    return root["$defs"][reference.rsplit("/", 1)[1]] if reference else schema


def _child(schema: Schema, part: str | int, root: Schema) -> Schema | None:
    for option in schema.get("anyOf", [schema]):
        container = _resolved(option, root)
        if isinstance(part, int):
            found = container.get("items")
        else:
            found = container.get("properties", {}).get(part) or _any_key(container)
        if found is not None:
            return _resolved(found, root)
    return None


def _keys(schema: Schema, root: Schema) -> Schema:
    """The named keys of a mapping that `schema` allows."""
    options = (_resolved(option, root) for option in schema.get("anyOf", [schema]))
    return next((found for option in options if (found := option.get("properties"))), {})


def _any_key(schema: Schema) -> Schema | None:
    """The schema of the values in a mapping with free keys."""
    for found in schema.get("patternProperties", {}).values():
        return _as_schema(found)
    found = schema.get("additionalProperties", False)
    return _as_schema(found) if found is not False else None


def _as_schema(found: Any) -> Schema:
    return found if isinstance(found, Mapping) else {}


def _problem(details: ErrorDetails, schema: Schema, problem_at: ProblemAt, base: KeyPath) -> ConfigProblem:
    location, context = details["loc"], details.get("ctx", {})
    is_key = location[-1:] == ("[key]",)
    path = base + (location[:-1] if is_key else location)
    if is_key and isinstance(details["input"], date):
        # pydantic names such a key by its `repr`; its place in the file is known by the key itself.
        path = (*path[:-1], cast(str, details["input"]))
    match details["type"]:
        case "extra_forbidden":
            known = _keys(schema_at(schema, location[:-1]) or {}, schema)
            hint = near_miss(str(path[-1]), known) or f"; the keys here are {', '.join(known)}"
            return problem_at(path, f"unknown key {path[-1]!r}{hint}", at_key=True)
        case "missing":
            return problem_at(path, f"the key {path[-1]!r} is required", at_key=True)
        case "rule_broken":
            return problem_at(path + context["at"], context["message"])
        case "too_long":
            return problem_at(path, f"expected at most {context['max_length']} values")
        case "too_short":
            return problem_at(path, f"expected at least {context['min_length']} value(s)")
        case "value_error":
            return problem_at(path, str(context["error"]))
        case kind if kind == "invalid_key" or (is_key and not isinstance(path[-1], str)):
            return problem_at(path, "this key is not text; put it in quotes", at_key=True)
    if is_key:
        names = (schema_at(schema, location[:-2]) or {}).get("patternProperties", {})
        wrong = f"expected a name that matches {' or '.join(names)}" if names else "this key is empty or too long"
        return problem_at(path, wrong, at_key=True)
    expectation = schema_at(schema, location) or {}
    message = f"expected {_expected(expectation, schema)}, found {_found(details['input'], path, expectation)}"
    return problem_at(path, message + _quotes_hint(details["input"], expectation))


def _expected(schema: Schema, root: Schema) -> str:
    schema = _resolved(schema, root)
    if "expected" in schema:
        return str(schema["expected"])
    if "anyOf" in schema:
        return " or ".join(_expected(option, root) for option in schema["anyOf"])
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices:
        return " or ".join(map(repr, choices))
    describe = _DESCRIPTIONS.get(schema.get("type", ""))
    return describe(schema) if describe else "another value"


def _text(schema: Schema) -> str:
    if schema.get("format") == "path":
        return "a path"
    text = "non-empty text" if schema.get("minLength") else "text"
    return f"{text} of at most {schema['maxLength']} characters" if "maxLength" in schema else text


def _bounds(schema: Schema) -> str:
    match schema:
        case {"minimum": low, "maximum": high}:
            return f" from {low} to {high}"
        case {"exclusiveMinimum": low, "maximum": high}:
            return f" above {low} and at most {high}"
        case {"minimum": low}:
            return f" of at least {low}"
        case {"exclusiveMinimum": low}:
            return f" above {low}"
        case {"maximum": high}:
            return f" of at most {high}"
    return ""


_DESCRIPTIONS: Mapping[str, Callable[[Schema], str]] = {
    "integer": lambda schema: "an integer" + _bounds(schema),
    "number": lambda schema: "a number" + _bounds(schema),
    "boolean": lambda schema: "true or false",
    "string": _text,
    "array": lambda schema: "a list",
    "object": lambda schema: "a mapping",
    "null": lambda schema: "null",
}


def _found(value: object, path: KeyPath, expectation: Schema) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        # Broken JSON from the environment, which may hold secrets.
        case str() if accepts(expectation, "object") or accepts(expectation, "array"):
            return "text"
    is_secret = any(isinstance(part, str) and (looks_secret(part) or part in _SECRET_VALUES) for part in path)
    # As pydantic declares a SecretStr; of a model that no schema tells of, nothing is known.
    options = expectation.get("anyOf", [expectation])
    if is_secret or not expectation or any(option.get("writeOnly") for option in options):
        return f"a value of type {type(value).__name__} (not shown)"
    if isinstance(value, str) and "://" in value and ("@" in value or "?" in value):
        # The user, the password or the query may be a secret.
        return f"a URL with the scheme {value.partition('://')[0][:_SHOWN]!r} (not shown)"
    if isinstance(value, bool):
        return str(value).lower()
    shown = repr(value) if isinstance(value, str) else str(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"


def _quotes_hint(value: object, schema: Schema) -> str:
    is_text_expected = accepts(schema, "string") and not schema.keys() & {"const", "enum"}
    return "; put it in quotes" if is_text_expected and isinstance(value, int | float | date) else ""
