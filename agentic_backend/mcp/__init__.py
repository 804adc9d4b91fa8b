"""MCP: an agent's sessions with its servers (`mcp_runtime`), and the names of tools.

The names are here because agents and the offline model need them too, and importing MCP takes a quarter of a second.
"""

import re

_LONGEST = 64
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(name: str) -> str:
    """`name` in a form that every provider accepts: at most 64 letters, digits, `_` and `-`."""
    return _NO_NAME.sub("_", name)[:_LONGEST]


DELEGATION_PREFIX = "ask_"
"""Begins the name of a leader's tool that asks an agent of its crew; the offline model recognizes experts by it."""


def delegation_tool_name(agent_id: str) -> str:
    """The name of the tool that asks the agent a question."""
    return tool_name(DELEGATION_PREFIX + agent_id)
