"""Reads YAML from anybody in a time that is proportional to its length, and bounds what it holds while it is parsed.

PyYAML's own parser takes seconds for a few kilobytes of brackets, libyaml's takes milliseconds for a megabyte of
anything but `%TAG` lines. libyaml composes by recursion in C, where too many levels would end the process: so events
are counted first.
"""

import re
from typing import Any

import yaml

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's; PyYAML's own where it was built without."""

MOST_TAG_LINES = 64
# libyaml compares each with all before.
_TAG_LINE = re.compile(r"(?:^|[\n\r\x85\u2028\u2029])%TAG")


class OutOfBounds(yaml.YAMLError):
    """The text says more than is read; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def require_bounded(text: str, most_nodes: int, most_levels: int) -> None:
    """Raises OutOfBounds, and yaml.YAMLError if the text before its bounds is no YAML.

    An alias is one node here: what it stands for is bounded by who reads it.
    """
    for number, tag_line in enumerate(_TAG_LINE.finditer(text)):
        if number == MOST_TAG_LINES:
            line = text.count("\n", 0, tag_line.end()) + 1
            raise OutOfBounds(f"more than {MOST_TAG_LINES} lines of %TAG", line, 1)
    nodes = levels = 0
    for event in yaml.parse(text, Loader):
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
        if nodes > most_nodes:
            raise _out_of_bounds(event, f"more than {most_nodes} values")
        if levels > most_levels:
            raise _out_of_bounds(event, f"is nested too deeply: more than {most_levels} levels")


def _out_of_bounds(event: Any, message: str) -> OutOfBounds:
    return OutOfBounds(message, event.start_mark.line + 1, event.start_mark.column + 1)
