"""What the tool is called by which a leader asks an agent of its crew; the offline model knows experts by it."""

from agentic_backend.mcp.tool_name import tool_name

ASK = "ask_"


def delegation_tool_name(agent_id: str) -> str:
    """What the tool is called that puts a question to the agent."""
    return tool_name(ASK + agent_id)
