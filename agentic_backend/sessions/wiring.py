"""Builds this package's parts: the services for transports, and the maintenance that runs beside them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models import ChatModels
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.chat_profiles import ChatProfiles
from agentic_backend.config.limits import LimitsSettings
from agentic_backend.config.settings import Settings
from agentic_backend.event_loop import running
from agentic_backend.exchange.background_calls import BackgroundCalls
from agentic_backend.exchange.closing import Closing
from agentic_backend.exchange.compactor import Compactor
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.launcher import ExchangeLauncher
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.kpi import Kpi
from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.policy.agents_in_scope import AgentsInScope
from agentic_backend.policy.cascade import Cascade
from agentic_backend.policy.module_supervisor import ModuleSupervisor
from agentic_backend.policy.policies_file import Policies
from agentic_backend.policy.scopes import Scopes
from agentic_backend.policy.token_counts import TokenCounts
from agentic_backend.policy.usage_ledger import UsageLedger
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.attachments import Attachments
from agentic_backend.sessions.branches import Branches
from agentic_backend.sessions.exchange_pages import ExchangePages
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.farewell import Farewell
from agentic_backend.sessions.feedback import FeedbackService
from agentic_backend.sessions.housekeeping import Chore, Housekeeping, inactivity
from agentic_backend.sessions.kpi_report import KpiReports
from agentic_backend.sessions.maintenance import Maintenance
from agentic_backend.sessions.recovery import Recovery
from agentic_backend.sessions.resumption import Resumption
from agentic_backend.sessions.retention import Retention
from agentic_backend.sessions.runs import Runs
from agentic_backend.sessions.session_ends import OnEnded, SessionEnds
from agentic_backend.sessions.session_events import SessionEvents
from agentic_backend.sessions.session_export import SessionExport
from agentic_backend.sessions.session_news import SessionNews
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.sessions.sharing import SharingService
from agentic_backend.sessions.titles import Titles
from agentic_backend.sessions.trust_reports import TrustReports
from agentic_backend.sessions.upgrading import Upgrading
from agentic_backend.sessions.usage_reports import UsageReports
from agentic_backend.sessions.user_deletions import UserDeletions
from agentic_backend.sessions.user_export import UserExport
from agentic_backend.sessions.user_limits import UserLimits
from agentic_backend.sessions.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import Store
from agentic_backend.tracing.tracing import Tracing


@dataclass(frozen=True, slots=True)
class WiredSessions:
    attachments: Attachments
    background: BackgroundCalls
    orchestrator: SessionOrchestrator
    service: SessionService
    branches: Branches
    reports: KpiReports
    admin_reads: AdminReads
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
    news: SessionNews


def wire_sessions(
    instance: Instance,
    store: Store,
    relay: Relay,
    *,
    settings: Settings,
    agents: AgentManager,
    factory: AgentFactory,
    models: ChatModels,
    kpi: Kpi,
    tokens: TokenCache,
    ledger: UsageLedger,
    policies: Policies,
    modules: ModuleSupervisor,
    tracing: Tracing,
    on_ended: OnEnded = lambda session, user: None,
) -> WiredSessions:
    limits, in_scope = settings.limits, agents_in_scope(agents, policies, settings.limits)

    def profiles() -> ChatProfiles:
        return agents.chat_profiles

    titles = Titles(models, store, relay, kpi, ledger, settings.titles, limits.titles_timeout_s)
    events = SessionEvents(relay, factory, in_scope, modules, titles, on_ended)
    relay.on_completed = events.close_agents
    news = SessionNews(store, relay.list_followers)
    relay.on_news = news.heard
    kpi.connections.list_followers(lambda: len(relay.list_followers))
    kpi.exchanges.at_most(limits.max_running)
    kpi.exchanges.at_work(lambda: relay.began_at)
    kpi.models.at_work(lambda: relay.model_calls_begun_at)
    ends = SessionEnds(store, relay, factory, kpi, events.ended)
    views, closing = ExchangeViews(instance, store, relay), Closing(store, relay, kpi, events.answered, events.gate)
    counts, summary_timeout_s = TokenCounts(), settings.chat_profiles.summary_timeout_s
    compactor = Compactor(store, relay, models, ledger, kpi, counts, profiles, summary_timeout_s)
    background = BackgroundCalls(instance, store, relay, limits, kpi)
    services = ExchangeServices(
        instance=instance,
        store=store,
        relay=relay,
        factory=factory,
        kpi=kpi,
        limits=limits,
        tokens=tokens,
        ledger=ledger,
        modules=modules,
        profiles=profiles,
        token_counts=counts,
        compactor=compactor,
        background=background,
        show_stored=views.refresh,
        on_answered=events.answered,
        tracing=tracing,
    )
    attachments = Attachments(store, models, limits)
    launcher = ExchangeLauncher(services, settings.permissions)
    waiting = WaitingExchanges(services, in_scope, launcher, views, closing)
    resumption = Resumption(services, in_scope, launcher)
    user_limits = UserLimits(store, limits)
    recovery = Recovery(closing, resumption.resume_by_itself, ends.finish_quit)
    orchestrator = SessionOrchestrator(
        services,
        in_scope,
        launcher=launcher,
        views=views,
        waiting=waiting,
        resumption=resumption,
        recovery=recovery,
        user_limits=user_limits,
        ends=ends,
        farewell=Farewell(settings.sessions.farewell),
        attachments=attachments,
    )
    service = SessionService(
        store, in_scope, factory, ends, relay, orchestrator, user_limits, compactor, profiles, modules, kpi, attachments
    )
    exchange_pages = ExchangePages(store)
    sharing = SharingService(store, settings.sharing, kpi)
    forgetting = titles.forget, compactor.forget, background.forget
    deletions = UserDeletions(store, relay, factory, service, attachments, forgetting)
    return WiredSessions(
        attachments=attachments,
        background=background,
        orchestrator=orchestrator,
        service=service,
        branches=Branches(store, in_scope, relay, user_limits, modules, kpi),
        reports=KpiReports(store),
        admin_reads=AdminReads(store, lambda: modules.health),
        usage=UsageReports(store, ledger.prices),
        trust=TrustReports(store),
        feedback=FeedbackService(store, kpi),
        exchange_pages=exchange_pages,
        sharing=sharing,
        session_export=SessionExport(store, exchange_pages, agents),
        runs=Runs(store),
        user_export=UserExport(store),
        user_deletions=deletions,
        maintenance=Maintenance(
            instance,
            store,
            relay,
            recovery=recovery,
            waiting=waiting,
            views=views,
            kpi=kpi,
            look_at_deletions=deletions.look,
        ),
        housekeeping=Housekeeping(
            instance,
            store,
            kpi,
            Chore("expired_shares", sharing.delete_expired),
            *_chores(store, settings, ends, service, deletions, background, attachments),
        ),
        upgrading=Upgrading(instance, store, kpi),
        compactor=compactor,
        news=news,
    )


def _chores(
    store: Store,
    settings: Settings,
    ends: SessionEnds,
    service: SessionService,
    deletions: UserDeletions,
    background: BackgroundCalls,
    attachments: Attachments,
) -> list[Chore]:
    inactive_h = settings.sessions.inactive_h
    return [
        *([] if inactive_h is None else [inactivity(store, ends, inactive_h)]),
        Chore("user_deletions", deletions.finish),
        Chore("background_calls", background.close_left),
        Chore("attachments", attachments.remove_stale),
        *Retention(store, ends, service, settings.retention).chores(),
    ]


def agents_in_scope(agents: AgentManager, policies: Policies, limits: LimitsSettings) -> AgentsInScope:
    """The agents, with the settings of the server where nothing else says otherwise."""

    def defaults() -> Mapping[str, Any]:
        return {
            "model": "default",
            "chat_profile": agents.chat_profiles.default_name,
            "limits.run_s": limits.run_timeout_s,
        }

    return AgentsInScope(agents, Scopes(policies), Cascade(policies, defaults))


@asynccontextmanager
async def open_sessions(services: WiredSessions, *, alone: bool) -> AsyncIterator[None]:
    """Run the maintenance, the housekeeping and the upgrade while the context is open.

    An instance that is `alone` on its store first ends all exchanges left in it. Raises StoreUnavailable.
    """
    if alone:
        await services.maintenance.recover_all()
        await services.attachments.remove_unfinished()
    async with (
        running(services.maintenance.run()),
        running(services.housekeeping.run()),
        running(services.upgrading.run()),
        running(services.news.run()),
    ):
        try:
            yield
        finally:
            await services.background.aclose()
