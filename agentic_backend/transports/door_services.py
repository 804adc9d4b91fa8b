"""DoorServices: the services that every transport uses to authenticate, bound, count and serve clients."""

from collections.abc import Collection
from dataclasses import dataclass

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.auth.user import Authenticator
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.kpi import Kpi
from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.agents.agent_admin import AgentAdmin
from agentic_backend.sessions.branches import Branches
from agentic_backend.sessions.reading.exchange_pages import ExchangePages
from agentic_backend.sessions.reading.kpi_report import KpiReports
from agentic_backend.sessions.reading.run_views import RunViews
from agentic_backend.sessions.reading.runs import Runs
from agentic_backend.sessions.reading.session_export import SessionExport
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.sessions.reading.usage_reports import UsageReports
from agentic_backend.sessions.reruns import Reruns
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.sessions.users.feedback import FeedbackService
from agentic_backend.sessions.users.sharing import SharingService
from agentic_backend.sessions.users.user_deletions import UserDeletions
from agentic_backend.sessions.users.user_export import UserExport
from agentic_backend.tracing.tracing import Tracing
from agentic_backend.transports.open_connections import OpenConnections
from agentic_backend.transports.sign_in import SignIn


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorServices:
    authenticator: Authenticator
    tokens: TokenCache
    agents: AgentManager
    orchestrator: SessionOrchestrator
    attachments: Attachments
    sessions: SessionService
    branches: Branches
    run_views: RunViews
    reruns: Reruns
    reports: KpiReports
    admin_reads: AdminReads
    agent_admin: AgentAdmin
    usage: UsageReports
    trust: TrustReports
    feedback: FeedbackService
    exchange_pages: ExchangePages
    session_export: SessionExport
    sharing: SharingService
    runs: Runs
    user_export: UserExport
    user_deletions: UserDeletions
    relay: Relay
    connections: OpenConnections
    kpi: Kpi
    tracing: Tracing
    limits: LimitsSettings
    sign_in: SignIn
    secrets: Collection[str]
    """Those of the environment, the models and the MCP servers, which an author's code could quote."""
