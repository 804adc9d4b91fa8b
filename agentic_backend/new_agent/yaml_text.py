"""Adds entries to a YAML file as a person would: the text that is there stays as it is, with its comments.

Invariant: what is returned reads as what was there and the entries, or CannotWrite is raised.
"""

from textwrap import indent
from typing import Any

import yaml

from agentic_backend.new_agent.errors import CannotWrite


def with_entries(text: str, key: str, entries: str) -> str:
    """`text` with `entries`, lines of YAML, at the end of the list or mapping under `key` at its top.

    Raises CannotWrite if the file is written in a way in which only a person can add to it.
    """
    try:
        expected = _joined(yaml.safe_load(text) or {}, key, yaml.safe_load(entries))
        found = _inserted(text, yaml.compose(text), key, entries)
        if yaml.safe_load(found) == expected:
            return found
    except (yaml.YAMLError, TypeError, AttributeError):
        # It is no YAML, or no mapping with a list or mapping under the key.
        pass
    raise CannotWrite(f"can't add to {key!r} there; add this yourself:\n\n{entries}")


def _joined(values: dict[str, Any], key: str, more: Any) -> dict[str, Any]:
    earlier = values.get(key)
    if isinstance(more, list):
        return {**values, key: [*(earlier or []), *more]}
    return {**values, key: {**(earlier or {}), **more}}


def _inserted(text: str, root: Any, key: str, entries: str) -> str:
    lines = [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]
    places = [place for place, (name, _) in enumerate(root.value) if name.value == key] if root is not None else []
    if not places:
        return "".join([*lines, "\n" if lines else "", f"{key}:\n", indent(entries, "  ")])
    value = root.value[places[0]][1]
    if value.tag.endswith(":null") or not value.value:
        # `agents:` without a value, or `agents: []`.
        start, end = value.start_mark, value.end_mark
        rest = lines[start.line][: start.column].rstrip() + lines[start.line][end.column :]
        return "".join([*lines[: start.line], rest, indent(entries, "  "), *lines[start.line + 1 :]])
    end_line = _end(lines, root.value[places[0] + 1 :])
    added = "\n" + indent(entries, " " * value.start_mark.column)
    return "".join([*lines[:end_line], added, *(["\n"] if end_line < len(lines) else []), *lines[end_line:]])


def _end(lines: list[str], following: list[Any]) -> int:
    """The line before which an entry goes: that of the key which follows, with the comments above it, or the end."""
    if not following:
        return len(lines)
    line: int = following[0][0].start_mark.line
    while line and (not lines[line - 1].strip() or lines[line - 1].startswith("#")):
        line -= 1
    return line
