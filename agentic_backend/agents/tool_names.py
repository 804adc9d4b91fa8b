"""The names of an agent's tools, as far as they are known before it is built."""

from langgraph.pregel import Pregel

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.tool_approval import tools_of


def tool_names(agent: CatalogAgent) -> list[str]:
    """The tools of the agent's own, and those that its entry names of MCP servers: all others are known only later."""
    uses = agent.settings.tuning.mcp_servers
    named = [name for use in uses for name in (use.require_tools if use.tools is None else use.tools)]
    return list(dict.fromkeys([*_own_tool_names(agent.target), *named]))


def _own_tool_names(target: object) -> list[str]:
    """What a class declares, or what the tool nodes of a compiled graph hold; none for a function's graph."""
    if isinstance(target, type) and issubclass(target, AgentFlow):
        return list(target.tool_names)
    return tools_of(target) if isinstance(target, Pregel) else []
