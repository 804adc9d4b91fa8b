"""The tools of a server that models can be given. Each other one is left out, with a line that names it."""

import logging
from collections.abc import Sequence
from typing import Any

from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp.types import Tool

from agentic_backend.disclosure.exception_detail import type_of
from agentic_backend.inlined_schema import MOST_CHARACTERS, MOST_VALUES, Budget, UnusableSchema, usable_schema
from agentic_backend.mcp import tool_name

log = logging.getLogger(__name__)

# Of all tools of a server, as they are made.
_MOST_VALUES, _MOST_CHARACTERS = 200_000, 4_000_000


def usable_tools(server_id: str, tools: Sequence[Tool]) -> tuple[list[Tool], dict[str, str]]:
    """The tools with schemas that have no references, and why each other was left out, by its name.

    Takes a second for many with large schemas.
    """
    usable, left_out = [], {}
    left = Budget(_MOST_VALUES, _MOST_CHARACTERS)
    for tool in tools:
        values, characters = min(left.values, MOST_VALUES), min(left.characters, MOST_CHARACTERS)
        budget = Budget(values, characters)
        try:
            usable.append(_usable(tool, budget))
        except UnusableSchema as error:
            left_out[tool.name] = str(error)
        # Whatever a library makes of a schema, the other tools are there.
        except Exception as error:
            left_out[tool.name] = f"no model can be given its schema: {type_of(error)}"
        left.values -= values - budget.values
        left.characters -= characters - budget.characters
    for name, reason in left_out.items():
        tell_left_out(server_id, name, reason)
    return usable, left_out


def tell_left_out(server_id: str, name: str, reason: str) -> None:
    log.warning("MCP tool left out", extra={"mcp_server": server_id, "tool": name, "reason": reason})


def _usable(tool: Tool, budget: Budget) -> Tool:
    schema = usable_schema(tool.inputSchema, budget)
    # As a model is given it: LangChain follows what looks like a reference, also among names and values.
    trial = StructuredTool(name=tool_name(tool.name), description="", args_schema=schema, func=_nothing)
    convert_to_openai_tool(trial)
    return tool.model_copy(update={"inputSchema": schema})


def _nothing(**arguments: Any) -> None:
    """What the trial's tool does: it is never called."""
