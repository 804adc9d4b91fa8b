"""MCP: an agent's sessions with its servers (`mcp_runtime`), and the names of tools.

The names are here because agents and the offline model need them too, and importing MCP takes a quarter of a second.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

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
            name = next(one for one in _numbered(name) if one not in avoided)
            avoided.add(name)
        given[name] = None
    return list(given)


def _numbered(name: str) -> Iterator[str]:
    return (f"{name[: _LONGEST - len(end)]}{end}" for end in map("_{}".format, count(2)))


def numbered_names(name: str) -> list[str]:
    """The first names that a tool may get beside others that are called `name` too."""
    return list(islice(_numbered(name), 20))


def policy_metadata(origin: str, name: str, final: str) -> dict[str, Any]:
    """The part of a tool's metadata that tells by which names policy may mean it.

    `origin` is the id of its server or API, `name` its name there, `final` the one that models call, which what others
    offer changes. The others stay: `origin/name`, the own name, and those that it gets alone and beside another tool of
    its name. One with a number is none of them: it may be another tool's tomorrow.
    """
    names = list(dict.fromkeys([f"{origin}/{name}", name, tool_name(name), tool_name(f"{origin}_{name}")]))
    return {POLICY_NAMES: names} | ({} if final in names else {NUMBERED: final})


def policy_names(name: str, metadata: Mapping[str, Any] | None) -> list[str]:
    """All names by which policy may mean a tool with this final name, which its author may have given it."""
    metadata = metadata or {}
    final = [] if metadata.get(NUMBERED) == name else [name]
    return list(dict.fromkeys([*metadata.get(POLICY_NAMES, ()), *final]))


POLICY_NAMES, NUMBERED = "policy_names", "numbered_name"
"""The keys of `policy_metadata`, which no server can set. The first of the names is where the tool comes from."""

TITLE = "title"
"""The key of a tool's metadata with its title, as in MCP's annotations."""

DELEGATION_PREFIX = "ask_"
"""Begins the name of a leader's tool that asks an agent of its crew; the offline model recognizes experts by it."""


def delegation_tool_name(agent_id: str) -> str:
    """The name of the tool that asks the agent a question."""
    return tool_name(DELEGATION_PREFIX + agent_id)


UI_RESOURCE = "text/html;profile=mcp-app"
"""The media type of the HTML documents in which tools show their results (MCP Apps, 2026-01-26)."""

APP_PART = "mcp:app"
"""The kind of the custom parts in which results are shown in such a document."""
