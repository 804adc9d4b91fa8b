"""Builds this package's parts: the services for transports, and the maintenance that runs beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from agentic_backend.agents.catalog.allowed_code import AllowedCode
from agentic_backend.agents.catalog.database_entries import DatabaseEntries
from agentic_backend.exchange.past.compactor import Compactor
from agentic_backend.exchange.run.background_calls import BackgroundCalls
from agentic_backend.experts.sentinel.operations import OPERATIONS
from agentic_backend.loop.event_loop import running
from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.sessions.agents.agent_admin import AgentAdmin
from agentic_backend.sessions.agents.database_agents import DatabaseAgents
from agentic_backend.sessions.app_calls import AppCalls
from agentic_backend.sessions.branches import Branches
from agentic_backend.sessions.exchange_wiring import WiredExchanges, wire_exchanges
from agentic_backend.sessions.list_updates import ListUpdates
from agentic_backend.sessions.reading.exchange_pages import ExchangePages
from agentic_backend.sessions.reading.kpi_report import KpiReports
from agentic_backend.sessions.reading.run_views import RunViews
from agentic_backend.sessions.reading.runs import Runs
from agentic_backend.sessions.reading.session_export import SessionExport
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.sessions.reading.usage_reports import UsageReports
from agentic_backend.sessions.reruns import Reruns
from agentic_backend.sessions.server_parts import ServerParts
from agentic_backend.sessions.session_ends import OnEnded
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.sessions.text_reviews import TextReviews
from agentic_backend.sessions.upkeep.housekeeping import Chore, Housekeeping, inactivity
from agentic_backend.sessions.upkeep.maintenance import Maintenance
from agentic_backend.sessions.upkeep.retention import Retention
from agentic_backend.sessions.upkeep.upgrading import Upgrading
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.sessions.users.feedback import FeedbackService
from agentic_backend.sessions.users.sharing import SharingService
from agentic_backend.sessions.users.user_deletions import UserDeletions
from agentic_backend.sessions.users.user_export import UserExport

# The start waits no longer for imports of agents in the database.
_LONGEST_IMPORTS_S = 30.0


@dataclass(frozen=True, slots=True)
class SessionServices:
    """What the sessions offer to transports, and what runs beside them. A new service is named here and made below."""

    app_calls: AppCalls
    attachments: Attachments
    background: BackgroundCalls
    orchestrator: SessionOrchestrator
    service: SessionService
    branches: Branches
    run_views: RunViews
    reruns: Reruns
    reports: KpiReports
    admin_reads: AdminReads
    database_agents: DatabaseAgents
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
    maintenance: Maintenance
    housekeeping: Housekeeping
    upgrading: Upgrading
    compactor: Compactor
    list_updates: ListUpdates
    text_reviews: TextReviews


def wire_sessions(parts: ServerParts, on_ended: OnEnded = lambda session, user: None) -> SessionServices:
    store, kpi = parts.store, parts.kpi
    _count_work(parts)
    exchanges = wire_exchanges(parts, on_ended)
    services = exchanges.services
    service = _session_service(parts, exchanges)
    branches = Branches(store, exchanges.in_scope, parts.relay, exchanges.user_limits, parts.modules, kpi)
    exchange_pages = ExchangePages(store)
    sharing = SharingService(store, parts.settings.sharing, kpi)
    admin_reads = AdminReads(store, lambda: parts.modules.health)
    database_agents = _database_agents(parts)
    deletions = _user_deletions(parts, exchanges, service)
    return SessionServices(
        text_reviews=TextReviews(exchanges.in_scope, parts.modules),
        app_calls=AppCalls(services, exchanges.in_scope, exchanges.launcher, exchanges.attachments),
        attachments=exchanges.attachments,
        background=services.background,
        orchestrator=exchanges.orchestrator,
        service=service,
        branches=branches,
        run_views=RunViews(store, services.run_steps, parts.factory, parts.agents, parts.tokens),
        reruns=Reruns(services, exchanges.in_scope, branches, exchanges.resumption, exchanges.orchestrator),
        reports=KpiReports(store),
        admin_reads=admin_reads,
        database_agents=database_agents,
        agent_admin=AgentAdmin(store, parts.agents, database_agents, admin_reads),
        usage=UsageReports(store, parts.ledger.prices),
        trust=TrustReports(store),
        feedback=FeedbackService(store, kpi),
        exchange_pages=exchange_pages,
        sharing=sharing,
        session_export=SessionExport(store, exchange_pages, parts.agents),
        runs=Runs(store),
        user_export=UserExport(store),
        user_deletions=deletions,
        maintenance=_maintenance(parts, exchanges, deletions),
        housekeeping=_housekeeping(parts, exchanges, service, sharing, deletions),
        upgrading=Upgrading(parts.instance, store, kpi),
        compactor=services.compactor,
        list_updates=_list_updates(parts),
    )


def _count_work(parts: ServerParts) -> None:
    """Let the metrics count what is at work in the relay."""
    relay, kpi = parts.relay, parts.kpi
    kpi.connections.list_subscriptions(lambda: len(relay.list_subscriptions))
    kpi.exchanges.at_most(parts.settings.limits.max_running)
    kpi.exchanges.at_work(lambda: relay.began_at)
    kpi.models.at_work(lambda: relay.model_calls_begun_at)


def _session_service(parts: ServerParts, exchanges: WiredExchanges) -> SessionService:
    return SessionService(
        parts.store,
        exchanges.in_scope,
        parts.factory,
        exchanges.ends,
        parts.relay,
        exchanges.orchestrator,
        exchanges.user_limits,
        exchanges.services.compactor,
        parts.profiles,
        parts.modules,
        parts.kpi,
        exchanges.attachments,
        exchanges.services.run_steps,
    )


def _user_deletions(parts: ServerParts, exchanges: WiredExchanges, service: SessionService) -> UserDeletions:
    services = exchanges.services
    forgetting = (
        exchanges.titles.forget,
        services.compactor.forget,
        services.background.forget,
        services.run_steps.forget,
    )
    since = parts.ledger.budgets.counted_since
    return UserDeletions(
        parts.store,
        parts.relay,
        parts.factory,
        service,
        exchanges.attachments,
        forgetting,
        since,
        parts.forget_in_applications,
    )


def _list_updates(parts: ServerParts) -> ListUpdates:
    updates = ListUpdates(parts.store, parts.relay.list_subscriptions)
    parts.relay.on_list_changed = updates.heard
    return updates


def _database_agents(parts: ServerParts) -> DatabaseAgents:
    settings = parts.settings
    database = settings.agents.database
    # The server's own is not among them: its log is for those whom the YAML catalog says.
    servers = settings.mcp_servers.keys() - {OPERATIONS}
    allowed, models = AllowedCode(database.classes), settings.models.keys()
    entries = DatabaseEntries(allowed, models, servers, settings.apis, parts.agents.keys)
    teardown, tell = parts.factory.teardown_agents, parts.relay.tell_agents_changed
    found = DatabaseAgents(parts.store, parts.agents, entries, database, teardown, tell)
    parts.relay.on_agents_changed = found.look
    return found


def _maintenance(parts: ServerParts, exchanges: WiredExchanges, deletions: UserDeletions) -> Maintenance:
    return Maintenance(
        parts.instance,
        parts.store,
        parts.relay,
        recovery=exchanges.recovery,
        waiting=exchanges.waiting,
        views=exchanges.views,
        kpi=parts.kpi,
        look_at_deletions=deletions.look,
    )


def _housekeeping(
    parts: ServerParts,
    exchanges: WiredExchanges,
    service: SessionService,
    sharing: SharingService,
    deletions: UserDeletions,
) -> Housekeeping:
    store, settings, ends = parts.store, parts.settings, exchanges.ends
    inactive_h = settings.sessions.inactive_h
    return Housekeeping(
        parts.instance,
        store,
        parts.kpi,
        Chore("expired_shares", sharing.delete_expired),
        *([] if inactive_h is None else [inactivity(store, ends, inactive_h)]),
        Chore("user_deletions", deletions.finish),
        Chore("hidden_usage", deletions.delete_hidden_usage),
        Chore("background_calls", exchanges.services.background.close_left),
        Chore("attachments", exchanges.attachments.remove_stale),
        Chore("text_index", store.index_texts),
        *Retention(store, ends, service, settings.retention, parts.ledger.budgets.counted_since).chores(),
    )


@asynccontextmanager
async def open_sessions(services: SessionServices, *, alone: bool, sole_server: bool = False) -> AsyncIterator[None]:
    """Run the maintenance, the housekeeping and the upgrade while the context is open.

    An instance that is `alone` on its store first ends all exchanges and uploads left in it; a worker of the
    `sole_server` on it ends the exchanges that no worker has. Raises StoreUnavailable.
    """
    if alone or sole_server:
        await services.maintenance.recover_all()
    # What takes longer is served as soon as it is imported.
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_IMPORTS_S):
            await services.database_agents.refresh_if_possible()
    if alone:
        await services.attachments.remove_unfinished()
    async with (
        running(services.maintenance.run()),
        running(services.housekeeping.run()),
        running(services.upgrading.run()),
        running(services.list_updates.run()),
        running(services.database_agents.run()),
    ):
        try:
            yield
        finally:
            await services.background.aclose()
            await services.maintenance.aclose()
