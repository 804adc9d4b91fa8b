"""Builds this package's parts: the services for transports, and the maintenance that runs beside them."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models import ChatModels
from agentic_backend.auth.user import User
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.chat_profiles import ChatProfiles
from agentic_backend.config.limits import LimitsSettings
from agentic_backend.config.permissions import PermissionsSettings
from agentic_backend.config.retention import RetentionSettings
from agentic_backend.config.sessions import SessionsSettings
from agentic_backend.config.titles import TitlesSettings
from agentic_backend.errors import AgenticError
from agentic_backend.event_loop import running
from agentic_backend.exchange.background_calls import BackgroundCalls
from agentic_backend.exchange.closing import Closing
from agentic_backend.exchange.compactor import Compactor
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.launcher import ExchangeLauncher
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.text_gate import TextGate, gate_of
from agentic_backend.kpi import Kpi
from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.policy.agents_in_scope import AgentsInScope
from agentic_backend.policy.cascade import Cascade
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.module_supervisor import ModuleSupervisor
from agentic_backend.policy.policies_file import Policies
from agentic_backend.policy.scopes import Scopes
from agentic_backend.policy.token_counts import TokenCounts
from agentic_backend.policy.usage_ledger import UsageLedger
from agentic_backend.protocol.messages import SessionState
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.farewell import Farewell, asks_to_quit
from agentic_backend.sessions.housekeeping import Chore, Housekeeping, inactivity
from agentic_backend.sessions.kpi_report import KpiReports
from agentic_backend.sessions.maintenance import Maintenance
from agentic_backend.sessions.recovery import Recovery
from agentic_backend.sessions.resumption import Resumption
from agentic_backend.sessions.retention import Retention
from agentic_backend.sessions.session_ends import OnEnded, SessionEnds
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.sessions.titles import Titles
from agentic_backend.sessions.usage_reports import UsageReports
from agentic_backend.sessions.user_deletions import UserDeletions
from agentic_backend.sessions.user_export import UserExport
from agentic_backend.sessions.user_limits import UserLimits
from agentic_backend.sessions.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord, MessageRecord, SessionRecord


@dataclass(frozen=True, slots=True)
class WiredSessions:
    background: BackgroundCalls
    orchestrator: SessionOrchestrator
    service: SessionService
    reports: KpiReports
    admin_reads: AdminReads
    usage: UsageReports
    user_export: UserExport
    user_deletions: UserDeletions
    maintenance: Maintenance
    housekeeping: Housekeeping
    compactor: Compactor


def wire_sessions(
    instance: Instance,
    store: Store,
    relay: Relay,
    *,
    agents: AgentManager,
    factory: AgentFactory,
    models: ChatModels,
    kpi: Kpi,
    limits: LimitsSettings,
    titles: TitlesSettings,
    profiles: ChatProfiles,
    summary_timeout_s: float,
    tokens: TokenCache,
    ledger: UsageLedger,
    permissions: PermissionsSettings,
    policies: Policies,
    ending: SessionsSettings,
    retention: RetentionSettings,
    modules: ModuleSupervisor,
    on_ended: OnEnded = lambda session, user: None,
) -> WiredSessions:
    naming = Titles(models, store, relay, kpi, ledger, titles, limits.titles_timeout_s)
    in_scope = agents_in_scope(agents, policies, limits, profiles)

    def ended(session: SessionRecord, user: User | None) -> None:
        # Where its agent is no longer served, nobody knows which modules apply.
        with contextlib.suppress(AgenticError):
            modules.session_event(Point.SESSION_END, session, in_scope.of_session(session, user), user)
        on_ended(session, user)

    def gate(exchange: ExchangeRecord, session: SessionRecord, opening: MessageRecord) -> TextGate | None:
        try:
            found = in_scope.again(exchange)
        except AgenticError:
            return None
        settings = found.agent.settings
        applying = modules.of_exchange(exchange, settings, session, found.effective.modules)
        return gate_of(exchange, settings, opening, applying)

    ends = SessionEnds(store, relay, factory, kpi, ended)

    def close_agents(session_id: str) -> None:
        # A process that goes closes all its agents anyway, and its relay awaits no new tasks.
        if not relay.draining:
            relay.spawn(factory.teardown_session_agents(session_id))

    relay.on_completed = close_agents

    def answered(session: SessionRecord, opening: MessageRecord, exchange: ExchangeRecord) -> None:
        if not asks_to_quit(opening.parts):
            naming.name_after(session, opening, exchange)
        if session.state is SessionState.COMPLETED:
            # The exchange's own agent was in use when the session was completed.
            close_agents(session.id)

    views, closing = ExchangeViews(instance, store, relay), Closing(store, relay, kpi, answered, gate)
    counts = TokenCounts()
    background = BackgroundCalls(instance, store, relay, limits)
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
        compactor=Compactor(store, relay, models, ledger, kpi, counts, profiles, summary_timeout_s),
        background=background,
        show_stored=views.refresh,
        on_answered=answered,
    )
    launcher = ExchangeLauncher(services, permissions)
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
        farewell=Farewell(ending.farewell),
    )
    service = SessionService(
        store, in_scope, factory, ends, relay, orchestrator, user_limits, services.compactor, profiles, modules
    )
    forgetting = naming.forget, services.compactor.forget, background.forget
    user_deletions = UserDeletions(store, relay, factory, service, forgetting)
    chores = [
        *([] if ending.inactive_h is None else [inactivity(store, ends, ending.inactive_h)]),
        Chore("user_deletions", user_deletions.finish),
        Chore("background_calls", background.close_left),
        *Retention(store, ends, service, retention).chores(),
    ]
    return WiredSessions(
        background=background,
        orchestrator=orchestrator,
        service=service,
        reports=KpiReports(store),
        admin_reads=AdminReads(store, lambda: modules.health),
        usage=UsageReports(store, ledger.prices),
        user_export=UserExport(store),
        user_deletions=user_deletions,
        maintenance=Maintenance(
            instance,
            store,
            relay,
            recovery=recovery,
            waiting=waiting,
            views=views,
            kpi=kpi,
            look_at_deletions=user_deletions.look,
        ),
        housekeeping=Housekeeping(instance, store, kpi, *chores),
        compactor=services.compactor,
    )


def agents_in_scope(
    agents: AgentManager, policies: Policies, limits: LimitsSettings, profiles: ChatProfiles
) -> AgentsInScope:
    """The agents, with the settings of the server where nothing else says otherwise."""
    defaults = {
        "model": "default",
        "chat_profile": profiles.default_name,
        "limits.run_s": limits.run_timeout_s,
    }
    return AgentsInScope(agents, Scopes(policies), Cascade(policies, defaults))


@asynccontextmanager
async def open_sessions(services: WiredSessions, *, alone: bool) -> AsyncIterator[None]:
    """Run the maintenance and the housekeeping while the context is open.

    An instance that is `alone` on its store first ends all exchanges left in it. Raises StoreUnavailable.
    """
    if alone:
        await services.maintenance.recover_all()
    async with running(services.maintenance.run()), running(services.housekeeping.run()):
        try:
            yield
        finally:
            await services.background.aclose()
