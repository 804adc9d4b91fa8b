"""The tools that arguments of LangChain's middleware name: by the names that policy knows, made those that models call.

LangChain compares the names that models call, which change with what other servers and APIs offer: a limit, an
emulation or a retry would no longer be of the tool that the entry means.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from agentic_backend.agents.catalog.named_middleware import SHIPPED_MIDDLEWARE, Target
from agentic_backend.mcp import NUMBERED, policy_names

_ONE = "tool_name"
_SEVERAL = ("tools", "always_include", "searchable_tools")


class UndecidableTool(Exception):
    """It can't be decided which tool is meant; says why, to go on with the agent's id."""


def with_final_names(target: Target, args: Mapping[str, Any], tools: Sequence[BaseTool]) -> Mapping[str, Any]:
    """`args` with the final names of the agent's `tools` in place of others that mean them, such as `server/tool`.

    Names that no tool of these has stay: middleware may bring tools of its own. An author's middleware gets its
    arguments as they are. Raises UndecidableTool.
    """
    if target not in SHIPPED_MIDDLEWARE.values():
        return args
    final: dict[str, Any] = dict(args)
    one = args.get(_ONE)
    if isinstance(one, str):
        meant = _meant(one, tools)
        if len(meant) > 1:
            raise UndecidableTool(
                f"limits the tool '{one}', but has {' and '.join(map(repr, meant))}: name each with its server or API, "
                "as in 'server/tool'."
            )
        final[_ONE] = meant[0]
    for key in _SEVERAL:
        if isinstance(several := args.get(key), list):
            names = [_meant(name, tools) if isinstance(name, str) else [name] for name in several]
            final[key] = [name for some in names for name in some]
    return final


def _meant(name: str, tools: Sequence[BaseTool]) -> list[str]:
    """The final names of the tools that `name` means; itself if it means none."""
    for tool in tools:
        if (tool.metadata or {}).get(NUMBERED) == name == tool.name:
            raise UndecidableTool(
                f"names the tool '{name}' in its middleware, but its number comes and goes with other tools: name it "
                f"'{policy_names(name, tool.metadata)[0]}'."
            )
    return [tool.name for tool in tools if name in policy_names(tool.name, tool.metadata)] or [name]
