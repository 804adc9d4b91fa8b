"""Transcripts: what a client and a server have said to each other, with placeholders for what differs each time.

`<session_1>`, `<exchange_1>` and the like stand for ids, each for the same one throughout a transcript. `<time>`,
`<number>`, `<text>`, `<object>` and `<list>` stand for any one. Text that is being written is one piece, however it was
cut.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from agentic_backend.protocol.events import ServerEvent
from agentic_backend.transports.chat_runs.events import RunEvent
from agentic_backend.transports.session_stream.events import StreamEvent

Json = dict[str, Any]

FOLDER = Path(__file__).parent / "transcripts"
"""Has a folder for each version that was recorded."""

_IDS = {
    "id": "id",
    "session_id": "session",
    "conversation_id": "session",
    "exchange_id": "exchange",
    "active_exchange_id": "exchange",
    "interrupt_id": "interrupt",
    "call_id": "call",
    "tool_call_id": "call",
    "run_id": "exchange",
    "request_id": "request",
    "next_cursor": "cursor",
}
_TIMES = {"timestamp", "created_at", "started_at", "updated_at", "ended_at", "expires_at"}
_NUMBERS = {"seq", "latency_ms", "retry_after_s"}
_WORDS_OF_ERRORS = {"content", "message", "error"}
# The texts of events that add to a text. Where the event replaces the text before it, it is a piece of its own.
_PIECES = {"delta": "text", "text_delta": "text", "chunk": "content"}
# Some doors have names in camelCase.
_CAPITAL = re.compile("[A-Z]")
_PLACEHOLDER = re.compile(r"<[a-z]+_[0-9]+>")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# Other ids are the catalog's or an agent's own, and the same each time.
_RANDOM = re.compile("[0-9a-f]{16}|[A-Za-z0-9_-]{40}")


def chat_events() -> set[str]:
    """The types of events that Chat Protocol v2 has in this version."""
    events, *others = get_args(ServerEvent)
    of_exchange, _ = get_args(events)
    return _types(of_exchange, *others)


def known_events() -> set[str]:
    """The types of events of all doors."""
    of_session_stream, _ = get_args(StreamEvent)
    return chat_events() | _types(of_session_stream, RunEvent)


def _types(*events: Any) -> set[str]:
    models = [model for each in events for model in get_args(each) or (each,)]
    return {model.model_fields["type"].default for model in models}


def write(path: Path, transcript: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(transcript, indent=1, ensure_ascii=False) + "\n")


class Masks:
    """Puts placeholders into what is recorded."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def of(self, value: Any, *, said_by_server: bool = False) -> Any:
        """`value` with placeholders. Ids are learnt from what the server says; a client's own stay as they are."""
        if said_by_server:
            self._learn(value)
        return self._masked(value, said_by_server)

    def keep(self, own_id: str) -> None:
        """Leave an id that the client has made as it is."""
        self._placeholders[own_id] = own_id

    def _learn(self, value: Any) -> None:
        if isinstance(value, dict):
            for name, each in value.items():
                kind = "session" if name == "id" and _is_session(value) else _IDS.get(_snake(name))
                if kind is not None and isinstance(each, str) and _RANDOM.search(each):
                    self._name(each, kind)
        for each in _within(value):
            self._learn(each)

    def _name(self, id: str, kind: str) -> None:
        # An id may be made of others.
        if not any(known in id for known in self._placeholders):
            self._counts[kind] += 1
            self._placeholders[id] = f"<{kind}_{self._counts[kind]}>"

    def _masked(self, value: Any, volatile: bool) -> Any:
        if isinstance(value, str):
            for id, placeholder in self._placeholders.items():
                value = value.replace(id, placeholder)
            return value
        if isinstance(value, list):
            return [self._masked(each, volatile) for each in value]
        if not isinstance(value, dict):
            return value
        if volatile and value.get("channel") == "error" and "parts" in value:
            # The words of an error, stored as a message.
            value = {**value, "parts": [{**part, "text": "<text>"} for part in value["parts"]]}
        return {
            self._masked(name, volatile): (_volatile(value, name) if volatile else None) or self._masked(each, volatile)
            for name, each in value.items()
        }


def _volatile(values: Json, name: str) -> str | None:
    """The placeholder of a value that differs each time, or whose words are for people only."""
    if values[name] is None:
        return None
    name, given = _snake(name), values[name]
    if name in _TIMES:
        return "<time>"
    # The schema is LangChain's or the agent's own; the details of an error name lines of code.
    if name == "response_schema" or (name == "detail" and "retryable" in values):
        return "<object>"
    if name in _NUMBERS:
        return "<number>"
    if name == "statements":
        # Of a trust summary: how an answer is cut, and what each statement is found to rest on.
        return "<list>"
    is_error = "retryable" in values or values.get("channel") == "error"
    of_error = name in _WORDS_OF_ERRORS and is_error and isinstance(given, str)
    words = of_error or name == "allowed_because" or (name == "title" and _is_session(values))
    return "<text>" if words else None


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name)


def _is_session(value: Json) -> bool:
    return {"user_id", "title", "next_rank"} <= value.keys()


def _within(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class Names:
    """What placeholders stand for while a transcript is replayed."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def filled(self, template: Any) -> Any:
        """A template with what its placeholders stand for."""
        if isinstance(template, str):
            return _PLACEHOLDER.sub(lambda found: self._values.get(found[0], found[0]), template)
        if isinstance(template, list):
            return [self.filled(each) for each in template]
        if isinstance(template, dict):
            return {self.filled(name): self.filled(each) for name, each in template.items()}
        return template

    def differences(self, expected: Any, actual: Any, place: str = "$") -> list[str]:
        """What was there and is missing or another, in words. What is new is no difference, but lists keep their size.

        Placeholders that are met for the first time stand for the actual value from then on.
        """
        if isinstance(expected, dict) and isinstance(actual, dict):
            return self._in_objects(expected, actual, place)
        if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
            pairs = enumerate(zip(expected, actual, strict=True))
            return [each for at, pair in pairs for each in self.differences(*pair, f"{place}[{at}]")]
        if isinstance(expected, str) and self._fits(expected, actual):
            return []
        if type(expected) is type(actual) and expected == actual:
            return []
        return [f"{place}: expected {expected!r}, not {actual!r}"]

    def _in_objects(self, expected: Json, actual: Json, place: str) -> list[str]:
        found: list[str] = []
        for template, each in expected.items():
            name = self.filled(template)
            if name not in actual:
                found.append(f"{place}.{name}: is missing")
            else:
                found += self.differences(each, actual[name], f"{place}.{name}")
        return found

    def _fits(self, expected: str, actual: Any) -> bool:
        match expected:
            case "<number>":
                return isinstance(actual, int | float) and not isinstance(actual, bool)
            case "<object>":
                return isinstance(actual, dict)
            case "<list>":
                return isinstance(actual, list)
            case "<time>":
                return isinstance(actual, str) and _TIME.fullmatch(actual) is not None
            case "<text>":
                return isinstance(actual, str) and actual != ""
        if _PLACEHOLDER.fullmatch(expected) and expected not in self._values and isinstance(actual, str):
            self._values[expected] = actual
        return bool(self.filled(expected) == actual)


class Piece:
    """Text that is being written, in the form of any door: several events of it are one."""

    def __init__(self, event: Json) -> None:
        self.event = event

    @property
    def key(self) -> tuple[Any, ...] | None:
        """Of the text that the event adds to; None if it adds to none."""
        if self.event["type"] in _PIECES and not self.event.get("replaces"):
            return self.event["type"], self.event.get("exchange_id"), self.event.get("block")
        if self.event["type"] == "stream" and self.event["message"]["metadata"]["extras"].get("streaming_delta"):
            return self.event["exchange_id"], self.event["message"]["rank"], self.event["message"]["channel"]
        return None

    @property
    def text(self) -> str:
        holder, name = self._place
        return str(holder[name])

    def add(self, text: str) -> None:
        holder, name = self._place
        holder[name] += text

    @property
    def _place(self) -> tuple[Json, str]:
        """The object that has the text, and its name there."""
        name = _PIECES.get(self.event["type"])
        return (self.event, name) if name is not None else (self.event["message"]["parts"][0], "text")


def joined(events: Iterable[Json]) -> list[Json]:
    """The events with adjacent pieces of the same text put together."""
    whole: list[Json] = []
    for event in events:
        piece, last = Piece(event), Piece(whole[-1]) if whole else None
        if piece.key is not None and last is not None and piece.key == last.key:
            last.add(piece.text)
        else:
            whole.append(event)
    return whole
