"""MCP: an agent's sessions with its servers (`mcp_runtime`), and the names of tools.

The names are here because agents and the offline model need them too, and importing MCP takes a quarter of a second.
"""

import re
from collections.abc import Sequence
from itertools import count

_LONGEST = 64
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(name: str) -> str:
    """`name` in a form that every provider accepts: at most 64 letters, digits, `_` and `-`."""
    return _NO_NAME.sub("_", name)[:_LONGEST]


def distinct_names(names: Sequence[str]) -> list[str]:
    """The tool names `names` in their order; to each that was there before, a number is added that makes it unique."""
    given: dict[str, None] = {}
    # A number makes no name that another tool has by itself.
    avoided = set(names)
    for name in names:
        if name in given:
            numbered = (f"{name[: _LONGEST - len(end)]}{end}" for end in map("_{}".format, count(2)))
            name = next(one for one in numbered if one not in avoided)
            avoided.add(name)
        given[name] = None
    return list(given)


TITLE = "title"
"""The key of a tool's metadata with its title, as in MCP's annotations."""

DELEGATION_PREFIX = "ask_"
"""Begins the name of a leader's tool that asks an agent of its crew; the offline model recognizes experts by it."""


def delegation_tool_name(agent_id: str) -> str:
    """The name of the tool that asks the agent a question."""
    return tool_name(DELEGATION_PREFIX + agent_id)
