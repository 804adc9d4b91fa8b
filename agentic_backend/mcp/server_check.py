"""Checks an MCP server: connects as an agent does, and looks for the tools that agents name."""

from collections.abc import Collection, Mapping

from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.disclosure.exception_detail import text_of
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp.credentials import fixed_credentials
from agentic_backend.mcp.inbound import Inbound
from agentic_backend.mcp.mcp_runtime import transport_of
from agentic_backend.mcp.server_session import ServerSession


async def check_mcp_server(
    server_id: str, settings: McpServerSettings, named: Mapping[str, Collection[str]], limit_s: float
) -> str:
    """What was found, in words. `named` are the tools that each agent names, by its id. Raises CheckFailed.

    Not for a server that takes the user's token.
    """
    settings = settings.model_copy(update={"connect_timeout_s": min(limit_s, settings.connect_timeout_s)})
    inbound = Inbound(server_id, fixed_credentials(settings))
    session = ServerSession(
        server_id, settings, transport_of(server_id, settings, None, inbound), inbound, lambda server_id, up: None
    )
    try:
        await session.open()
        tools = {tool.name for tool in session.tools}
    except AgentUnavailable as error:
        # A server's refusal is in the error's own words; else the cause says more.
        cause = f" {type(error.__cause__).__name__}: {text_of(error.__cause__)}" if error.__cause__ is not None else ""
        change = f"check mcp_servers.{server_id}, and whether that server runs"
        raise CheckFailed(f"{error.content}{cause}", change) from error
    finally:
        await session.aclose()
    left_out = "".join(f"; left out: {name}, {reason}" for name, reason in session.left_out.items())
    lacking = {agent_id: sorted(set(names) - tools) for agent_id, names in named.items()}
    if any(lacking.values()):
        told = "; ".join(f"{', '.join(names)} (agent {agent_id})" for agent_id, names in lacking.items() if names)
        raise CheckFailed(f"has no tool {told}{left_out}", "correct tuning.mcp_servers of these agents")
    return f"initialised; it lists {len(tools)} tools{left_out}"
