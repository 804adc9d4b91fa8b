"""HumanForm: asks the person at the keyboard what an agent waits for."""

from collections.abc import Iterator
from typing import Any

from agentic_backend.client import Answer, HumanRequest, answer, approve, edit, reject
from agentic_backend.exact_json import Inexact, read_exactly
from agentic_backend.protocol.events import Choice, HumanRequests
from agentic_backend.protocol.frames import Decision
from agentic_backend.terminal.keyboard import Keyboard
from agentic_backend.terminal.safe_text import safe, safe_line
from agentic_backend.terminal.screen import Screen
from agentic_backend.text.invisible_characters import shown, shown_json

_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_ACTIONS = {"approve": "y = yes", "reject": "n = no", "edit": "e = other arguments"}
_KEYS = {"y": "approve", "yes": "approve", "n": "reject", "no": "reject", "e": "edit", "edit": "edit"}


class NotDecidable(Exception):
    """A call that nobody can decide on; what waits can only be stopped."""


class HumanForm:
    """Its methods raise EOFError and KeyboardInterrupt, as the keyboard does."""

    def __init__(self, screen: Screen, keyboard: Keyboard) -> None:
        self._screen = screen
        self._keyboard = keyboard

    def fill(self, requests: HumanRequests) -> list[Decision | Answer]:
        """A decision or an answer for each request. Raises NotDecidable."""
        if requests.title:
            self._screen.note(requests.title, "bold")
        return [self._call(each) if each.call_id is not None else self._question(each) for each in requests.requests]

    def _call(self, request: HumanRequest) -> Decision:
        self._screen.note(f"Approve {shown(request.name or '')}?\n{shown_json(request.args, 2)}", "bold")
        if request.question:
            self._screen.note(request.question)
        allowed = [action for action in _ACTIONS if action in request.allowed]
        if not allowed:
            raise NotDecidable
        prompt = f"{', '.join(_ACTIONS[action] for action in allowed)}: "
        while True:
            action = _KEYS.get(self._keyboard.read(prompt).strip().lower())
            if action not in allowed:
                continue
            if action == "approve":
                return approve(request)
            if action == "reject":
                return reject(request, self._keyboard.read("why (may be empty): ").strip() or None)
            return edit(request, self._args())

    def _args(self) -> dict[str, Any]:
        while True:
            try:
                args = read_exactly(self._keyboard.read("all arguments, as JSON: "))
            except (ValueError, RecursionError) as error:
                self._screen.fault(f"That is no JSON: {error}")
                continue
            if isinstance(args, dict):
                return args
            self._screen.fault('Expected an object such as {"name": "value"}.')

    def _question(self, request: HumanRequest) -> Answer:
        schema = request.response_schema or {}
        if request.question:
            self._screen.note(request.question, "bold")
        elif request.value is not None:
            self._screen.note(shown_json(request.value, 2), "bold")
        if request.choices:
            return answer(request, self._choice([(each.id, _told(each)) for each in request.choices]))
        if schema.get("type") == "object" and schema.get("properties") and isinstance(schema["properties"], dict):
            return answer(request, self._object(schema))
        return answer(request, self._value("> ", schema, schema))

    def _choice(self, listed: list[tuple[Any, str]]) -> Any:
        for number, (_, label) in enumerate(listed, 1):
            self._screen.note(f"  {number}) {label}", "plain")
        while True:
            typed = self._keyboard.read("number: ").strip()
            if typed.isdecimal() and 1 <= int(typed) <= len(listed):
                return listed[int(typed) - 1][0]
            named = [value for value, _ in listed if str(value).lower() == typed.lower()]
            if named:
                return named[0]
            self._screen.fault(f"Expected a number from 1 to {len(listed)}.")

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A value for each property; those that need none may be left empty."""
        required, made = schema.get("required") or [], {}
        for name, given in schema["properties"].items():
            # JSON Schema also has the schemas true and false.
            each = given if isinstance(given, dict) else {}
            if each.get("description"):
                self._screen.note(str(each["description"]))
            hint = "" if name in required else " (may be empty)"
            prompt = f"{safe_line(shown(str(each.get('title', name))))}{hint}: "
            value = self._value(prompt, each, schema, optional=name not in required)
            if value is not None:
                made[name] = value
        return made

    def _value(self, prompt: str, schema: dict[str, Any], root: dict[str, Any], *, optional: bool = False) -> Any:
        """A value of a JSON Schema; None if it is optional and left out. The server checks it against all of it."""
        schema = _resolved(schema, root)
        if isinstance(schema.get("enum"), list):
            if optional:
                prompt = f"{prompt}{safe(' | '.join(map(str, schema['enum'])))}: "
            else:
                self._screen.note(prompt, "plain")
                return self._choice([(value, str(value)) for value in schema["enum"]])
        while True:
            typed = self._keyboard.read(prompt)
            if optional and not typed.strip():
                return None
            try:
                return value_of(typed, schema)
            except ValueError as error:
                self._screen.fault(str(error))


def value_of(typed: str, schema: dict[str, Any]) -> Any:
    """What is typed, as a value of `schema`: one of its `enum`, a text, else JSON. Raises ValueError for a person."""
    if isinstance(values := schema.get("enum"), list):
        named = [value for value in values if str(value) == typed.strip()]
        if not named:
            raise ValueError(f"Expected one of {', '.join(map(str, values))}.")
        return named[0]
    types = set(_types_of(schema)) - {"null"}
    if not types or "string" in types:
        return typed
    if "boolean" in types and typed.strip().lower() in _YES:
        return _YES[typed.strip().lower()]
    try:
        return read_exactly(typed)
    except Inexact as error:
        raise ValueError(f"This can't be sent exactly: {error}.") from None
    except (ValueError, RecursionError):
        kinds = " or ".join(sorted(types))
        raise ValueError(f"Expected {'y or n' if types == {'boolean'} else f'JSON: {kinds}'}.") from None


def _types_of(schema: dict[str, Any]) -> Iterator[str]:
    alternatives = schema.get("anyOf")
    for each in [schema, *(alternatives if isinstance(alternatives, list) else ())]:
        named = each.get("type") if isinstance(each, dict) else None
        yield from (one for one in (named if isinstance(named, list) else [named]) if isinstance(one, str))


def _told(choice: Choice) -> str:
    return f"{choice.label}: {choice.description}" if choice.description else choice.label


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The definition that `schema` names, if it names one of `root`."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    named = root.get("$defs")
    found = named.get(name) if isinstance(named, dict) else None
    return found if isinstance(found, dict) else schema
