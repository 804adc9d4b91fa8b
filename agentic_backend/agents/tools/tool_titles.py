"""The titles of tools: what people are shown for a tool's name, where the tool declares it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.tools.tool_guard import tool_nodes
from agentic_backend.mcp import TITLE

LONGEST = 100
"""Characters of a title."""


def tool_titles(agents: Sequence[AgentFlow]) -> Mapping[str, str]:
    """The titles of the tools of the agents' ToolNodes, by the tool's name.

    A name that means tools of different titles has none: a call tells no more than the name.
    """
    nodes = (node for agent in agents for node in tool_nodes(agent.get_compiled_graph()))
    titles: dict[str, set[str]] = {}
    for name, tool in (named for node in nodes for named in node.tools_by_name.items()):
        titles.setdefault(name, set()).add(_title_of(tool))
    return {name: title for name, [title, *others] in titles.items() if title and not others}


def _title_of(tool: BaseTool) -> str:
    """In one line of Unicode text; empty if it has none."""
    title: Any = (tool.metadata or {}).get(TITLE)
    text = title[: 2 * LONGEST].encode(errors="replace").decode() if isinstance(title, str) else ""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
