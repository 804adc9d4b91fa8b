"""What modules leave of the parts that are shown beside a tool's result.

Modules change a text for models, and what they take out of it people don't get beside it either. What they put around
a text, such as a warning for the model, is not for people. All texts of a part are looked at: together, as patterns may
go over several, and where a module objects each by itself. What can't be changed, as a link, is left out then.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from pydantic_core import to_jsonable_python

from agentic_backend.agents.tools.result_texts import results_in
from agentic_backend.exact_json import DEEPEST, depth_of


class WithheldText(str):
    """What models are given in place of a text that a module has blocked."""


Look = Callable[[str], Awaitable[str]]
"""Given a text; returns what the modules leave of it for a model."""

MOST_PARTS, MOST_CHARACTERS = 64, 2 * 1024 * 1024
"""What is looked at of a result's parts; a message shows no more."""
MOST_LOOKS = 100
"""Texts of one result that are looked at. What is left then is left out."""
WITHHELD = {"type": "text", "text": "A part of the result has been withheld."}

# What the contract or an application's declaration names; and a file within an image's address.
_DECLARED = ("type", "kind")
_ENCODED = re.compile(r"data:[^,]*;base64,")
_LONG_NUMBER = 10**8
_CHANGED_TYPES = ("text", "code", "custom")


def results_with_parts(result: Any) -> Iterator[ToolMessage]:
    """The results in what a ToolNode returns that have parts beside them."""
    return (message for message in results_in(result) if _parts_of(message))


async def look_at_parts(message: ToolMessage, look: Look, *, is_blocked: bool) -> None:
    """Leave of the message's parts what the modules do; nothing if they have blocked its text, or a text of the parts.

    The message is the tool's own, and is changed in place.
    """
    assert isinstance(message.artifact, Mapping), "it has parts"
    parts = [WITHHELD]
    if not is_blocked:
        looking = _Looking(look)
        try:
            parts = await looking.left([_plain(part) for part in _parts_of(message)[:MOST_PARTS]])
        except _IsBlocked:
            pass
    message.artifact = {**message.artifact, "parts": parts}


def _parts_of(message: ToolMessage) -> Sequence[Any]:
    artifact = message.artifact
    parts = artifact.get("parts") if isinstance(artifact, Mapping) else None
    return parts if isinstance(parts, list) else ()


def _plain(part: Any) -> Any:
    """The part as JSON has it, as a message would show it; WITHHELD if it is none."""
    try:
        plain = to_jsonable_python(dict(part) if isinstance(part, Mapping) else part)
    except Exception:
        # A tool's author may have put anything there.
        return WITHHELD
    return plain if isinstance(plain, dict) and depth_of(plain) <= DEEPEST else WITHHELD


class _IsBlocked(Exception):
    """A module has blocked a text."""


class _Looking:
    """Lets the modules look at one result's parts."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._looks_left = MOST_LOOKS
        self._known: dict[str, str] = {}
        """What is left of each text that was looked at."""

    async def left(self, parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Raises _IsBlocked."""
        texts = [list(dict.fromkeys(_texts_of(part))) for part in parts]
        if sum(len(text) for some in texts for text in some) > MOST_CHARACTERS:
            return [WITHHELD]
        # Mostly there is nothing to object to, and one look shows that.
        if await self._passes([text for some in texts for text in some]):
            return list(parts)
        return [await self._part_left(part, some) for part, some in zip(parts, texts, strict=True)]

    async def _part_left(self, part: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
        if await self._passes(texts):
            return part
        if part.get("type") not in _CHANGED_TYPES or len(texts) > self._looks_left:
            return WITHHELD
        left = {text: await self._text_left(text) for text in texts}
        if not await self._passes(list(left.values())):
            return WITHHELD
        return {key: _with(held, left) if _has_texts(key, held) else held for key, held in part.items()}

    async def _passes(self, texts: Sequence[str]) -> bool:
        joined = "\n".join(texts)
        return not texts or await self._text_left(joined) == joined

    async def _text_left(self, text: str) -> str:
        if not text.strip():
            return text
        if text not in self._known:
            if self._looks_left <= 0:
                return ""
            self._looks_left -= 1
            changed = await self._look(text)
            if isinstance(changed, WithheldText):
                raise _IsBlocked
            self._known[text] = text if text in changed else changed
        return self._known[text]


def _texts_of(part: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a part. Its own keys are the contract's, those within its data are not."""
    for key, held in part.items():
        if _has_texts(key, held):
            yield from _texts_in(held)


def _has_texts(key: str, held: Any) -> bool:
    return key not in _DECLARED and not (key == "url" and isinstance(held, str) and _ENCODED.match(held))


def _is_long_number(value: Any) -> bool:
    """Whether this number may be a card's or a phone's; shorter ones, as of a chart, say nothing of anybody."""
    return isinstance(value, int | float) and abs(value) >= _LONG_NUMBER


def _texts_in(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif _is_long_number(one):
            yield str(one)
        elif isinstance(one, dict):
            # In their order: what is next to each other is looked at together.
            waiting += [each for key, held in reversed(list(one.items())) for each in (held, key)]
        elif isinstance(one, list):
            waiting += reversed(one)


def _with(value: Any, left: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return left.get(value, value)
    if _is_long_number(value):
        text = str(value)
        # What nobody objects to stays a number.
        return value if (other := left.get(text, text)) == text else other
    if isinstance(value, dict):
        return {left.get(key, key): _with(each, left) for key, each in value.items()}
    return [_with(each, left) for each in value] if isinstance(value, list) else value
