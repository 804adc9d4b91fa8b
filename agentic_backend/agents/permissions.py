"""Permissions: what the tools of a run need, and whether the run's user has it.

A tool needs what its author declares with `needs`, what the settings say of the tools of an MCP server, and what the
agent's catalog entry says of tools by name. A tool that needs nothing may be used by everybody.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.tools import BaseTool

from agentic_backend.config.topics.permissions import PERMISSIONS, lacked, needed_by
from agentic_backend.mcp import policy_names

Tool = TypeVar("Tool", bound=BaseTool)


@dataclass(frozen=True, slots=True)
class Permissions:
    granted: frozenset[str] | None = None
    """Patterns of what the user may do; None is everything."""
    needed_by_name: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """What the catalog says that tools need: by agent id, then by the tool's name or a pattern of names."""

    def lacking(self, agent_id: str, tool: str, metadata: Mapping[str, Any] | None) -> list[str]:
        """The permissions that the user lacks for a tool of this name and with this metadata."""
        return lacked(self.granted, self.needed(agent_id, tool, metadata)) if self.granted is not None else []

    def needed(self, agent_id: str, tool: str, metadata: Mapping[str, Any] | None) -> list[str]:
        """The permissions that a tool of this name and with this metadata needs."""
        named = needed_by(self.needed_by_name.get(agent_id, {}), policy_names(tool, metadata))
        return list(dict.fromkeys([*declared(metadata), *named]))


EVERYTHING = Permissions()


def needs(*permissions: str) -> Callable[[Tool], Tool]:
    """Declare what a tool needs: `@needs("todos:write:self")` above `@tool`, or `needs("…")(tool)`."""

    def declare(tool: Tool) -> Tool:
        tool.metadata = {**(tool.metadata or {}), PERMISSIONS: [*declared(tool.metadata), *permissions]}
        return tool

    return declare


def declared(metadata: Mapping[str, Any] | None) -> Sequence[str]:
    """The permissions in a tool's metadata. One that is no list of texts can be granted to nobody."""
    found = (metadata or {}).get(PERMISSIONS, ())
    if isinstance(found, Iterable) and not isinstance(found, str) and all(isinstance(one, str) for one in found):
        return list(found)
    return [str(found)]
