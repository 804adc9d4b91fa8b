"""What modules leave of the parts that are shown beside a tool's result.

Modules change a text for models, and what they take out of it people don't get beside it either. What they put around
a text, such as a warning for the model, is not for people. Nothing else of a part is looked at than its texts: those of
data are looked at together, as patterns may go over several, and then each by itself.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command


class WithheldText(str):
    """What models are given in place of a text that a module has blocked."""


Look = Callable[[str], Awaitable[str]]
"""Given a text; returns what the modules leave of it for a model."""

MOST_TEXTS = 200
"""Of data that a module objects to; with more, they are left out."""
WITHHELD = {"type": "text", "text": "A part of the result has been withheld."}


def results_with_parts(result: Any) -> Iterator[ToolMessage]:
    """The results in what a ToolNode returns that have parts beside them."""
    if isinstance(result, list):
        for each in result:
            yield from results_with_parts(each)
    elif isinstance(result, Command) and isinstance(result.update, dict):
        for value in result.update.values():
            if isinstance(value, list):
                yield from results_with_parts([each for each in value if isinstance(each, ToolMessage)])
    elif isinstance(result, ToolMessage) and _parts_of(result):
        yield result


async def look_at_parts(message: ToolMessage, look: Look, *, is_blocked: bool) -> None:
    """Leave of the message's parts what the modules do; nothing if they have blocked its text, or a text of the parts.

    The message is the tool's own, and is changed in place.
    """
    assert isinstance(message.artifact, Mapping), "it has parts"
    try:
        parts = [WITHHELD] if is_blocked else [await _looked_at(part, look) for part in _parts_of(message)]
    except _IsBlocked:
        parts = [WITHHELD]
    message.artifact = {**message.artifact, "parts": parts}


class _IsBlocked(Exception):
    """A module has blocked a text."""


def _parts_of(message: ToolMessage) -> Sequence[Any]:
    artifact = message.artifact
    parts = artifact.get("parts") if isinstance(artifact, Mapping) else None
    return parts if isinstance(parts, list) else ()


async def _looked_at(part: Any, look: Look) -> Any:
    if not isinstance(part, dict):
        return part
    texts = {key: await _left(part[key], look) for key in ("text", "code") if isinstance(part.get(key), str)}
    if part.get("type") != "custom":
        return {**part, **texts}
    data = await _data_left(part.get("data"), look)
    return WITHHELD if data is None else {**part, **texts, "data": data}


async def _left(text: str, look: Look) -> str:
    changed = await look(text)
    if isinstance(changed, WithheldText):
        raise _IsBlocked
    return text if text in changed else changed


async def _data_left(data: Any, look: Look) -> Any:
    """The data as the modules leave them; None if they object to more than single texts."""
    texts = list(dict.fromkeys(_texts_in(data)))
    if not texts or await _passes(texts, look):
        return data
    if len(texts) > MOST_TEXTS:
        return None
    left = {text: await _left(text, look) for text in texts}
    return _with(data, left) if await _passes(list(left.values()), look) else None


async def _passes(texts: Sequence[str], look: Look) -> bool:
    joined = "\n".join(texts)
    return await _left(joined, look) == joined


def _texts_in(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            # In their order: what is next to each other is looked at together.
            waiting += [each for pair in reversed(list(one.items())) for each in reversed(pair)]
        elif isinstance(one, list):
            waiting += reversed(one)


def _with(value: Any, left: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return left[value]
    if isinstance(value, dict):
        return {_with(key, left): _with(each, left) for key, each in value.items()}
    return [_with(each, left) for each in value] if isinstance(value, list) else value
