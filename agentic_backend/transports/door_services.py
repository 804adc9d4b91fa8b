"""DoorServices: the services that every transport uses to authenticate, bound, count and serve clients."""

from collections.abc import Collection
from dataclasses import dataclass

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.auth.user import Authenticator
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.kpi import Kpi
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.wiring import SessionServices
from agentic_backend.tracing.tracing import Tracing
from agentic_backend.transports.open_connections import OpenConnections
from agentic_backend.transports.sign_in import SignIn


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorServices:
    authenticator: Authenticator
    tokens: TokenCache
    agents: AgentManager
    sessions: SessionServices
    relay: Relay
    connections: OpenConnections
    kpi: Kpi
    tracing: Tracing
    limits: LimitsSettings
    sign_in: SignIn
    doors: Collection[str]
    """The names of those that are open by setting."""
    mcp_agents: Collection[str]
    """The ids of the agents that are tools of the door `mcp`; empty: all are."""
    secrets: Collection[str]
    """Those of the environment, the models and the MCP servers, which an author's code could quote."""
