"""The names of an agent's tools, as far as they are known before it is built."""

from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel

from agentic_backend.agents.agent_flow import AgentFlow


def tool_names(target: object) -> list[str]:
    """What a class declares, or what the tool nodes of a compiled graph hold; none for a function's graph."""
    if isinstance(target, type) and issubclass(target, AgentFlow):
        return list(target.tool_names)
    if isinstance(target, Pregel):
        bound = [node.bound for node in target.nodes.values()]
        return [name for runnable in bound if isinstance(runnable, ToolNode) for name in runnable.tools_by_name]
    return []
