"""ChunkTexts: cleans the chunks of one model call, in place, before anything else sees them (see `normal_form.clean`).

A provider may cut its stream between the two halves of a character, in a text, a thought or the arguments of a call.
The first half waits for the chunk that goes on in the same place, which is where LangChain adds it up: the field, and
within it the keys and the indexes of blocks. A half that stays alone becomes U+FFFD where the next block of its type
begins, at the end of the stream at last.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk

from agentic_backend.agents.state.clean_values import clean_value
from agentic_backend.streaming.content.conversion import is_only_text
from agentic_backend.text.normal_form import clean

_STREAMED = ("content", "additional_kwargs", "tool_call_chunks")
"""The fields that LangChain adds up; what it reads from them is read again from the sum."""
_READ = ("response_metadata", "tool_calls", "invalid_tool_calls")
# What comes whole in one chunk.
_WHOLE = ("id", "name", "type", "index")
# Deeper than any block.
_DEEPEST = 16

_Place = tuple[tuple[str, Any], ...]
_Path = tuple[str | _Place, ...]
"""Where a text stands: a field, then keys, and for each block what tells its place."""


class ChunkTexts:
    __slots__ = ("_halves",)

    def __init__(self) -> None:
        self._halves: dict[_Path, str] = {}
        """The halves that wait, by their place."""

    def put_into(self, chunk: AIMessageChunk) -> None:
        """Clean the next chunk."""
        fields = chunk.__dict__
        if not self._halves and (
            clean(str(chunk.content)) is chunk.content
            if is_only_text(chunk)
            else all(_is_clean(fields[name]) for name in (*_STREAMED, *_READ))
        ):
            # Nearly all chunks.
            return
        for name in _STREAMED:
            if fields[name]:
                fields[name] = self._cleaned(fields[name], (name,))
        for name in _READ:
            if fields[name]:
                fields[name] = clean_value(fields[name])
        if chunk.chunk_position == "last" and self._halves:
            self._end(chunk)

    def _cleaned(self, value: Any, path: _Path) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if len(path) > _DEEPEST:
            return clean_value(value)
        if isinstance(value, dict):
            return {
                clean_value(key): clean_value(item) if key in _WHOLE else self._cleaned(item, (*path, str(key)))
                for key, item in value.items()
            }
        if isinstance(value, list):
            cleaned = []
            for item in value:
                place = _place_of(item, path)
                if self._halves and path == ("content",):
                    cleaned += self._ended_by(place)
                # Of calls, a chunk without an index is a whole one.
                is_piece = place or path != ("tool_call_chunks",)
                cleaned.append(self._cleaned(item, (*path, place)) if is_piece else clean_value(item))
            return cleaned
        return clean_value(value)

    def _ended_by(self, place: _Place) -> list[Any]:
        """Blocks for the halves of the blocks that one of the same type at `place` ends: what is shown of texts is in
        the order in which it comes.
        """
        ended = [path for path in self._halves if path[0] == "content" and _is_next(place, path[1:2])]
        return [block for path in ended if self._halves.pop(path) for block in _alone(path[1:])]

    def _text(self, text: str, path: _Path) -> str:
        if self._halves and text:
            text = self._halves.pop(path, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[path] = text[-1]
            text = text[:-1]
        return clean(text)

    def _end(self, last: AIMessageChunk) -> None:
        """Add the halves that have stayed alone to the last chunk."""
        whole = last
        for field, *path in self._halves:
            added = _alone(path)
            if field == "tool_call_chunks":
                added[0] = {"name": None, "id": None, "args": None} | added[0]
            whole += AIMessageChunk(**{"content": "", str(field): added})
        self._halves.clear()
        for name in (*_STREAMED, *_READ):
            last.__dict__[name] = whole.__dict__[name]


def _is_clean(value: Any) -> bool:
    if isinstance(value, str):
        return clean(value) is value
    if isinstance(value, dict):
        return all(map(_is_clean, value)) and all(map(_is_clean, value.values()))
    return not isinstance(value, list) or all(map(_is_clean, value))


def _place_of(item: object, path: _Path) -> _Place:
    """What tells where a block belongs; a provider tells the type of a call in its first piece only."""
    named = ("type", "index") if path == ("content",) else ("index",)
    return (
        tuple((name, item[name]) for name in named if item.get(name) is not None) if isinstance(item, Mapping) else ()
    )


def _is_next(place: _Place, before: _Path) -> bool:
    """Whether a block at `place` has the type of the one `before`, and is another one."""
    return any(place != one and place[:1] == one[:1] for one in before)


def _alone(path: Sequence[str | _Place]) -> Any:
    """A half that stays alone, at the place of the `path` within a field."""
    added: Any = "\ufffd"
    for step in reversed(path):
        added = {step: added} if isinstance(step, str) else [dict(step) | added if step else added]
    return added
