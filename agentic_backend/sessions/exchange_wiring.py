"""Builds what exchanges of sessions begin, run and end with: their services, and the orchestrator that begins them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentic_backend.exchange.end.orphan_closing import OrphanClosing
from agentic_backend.exchange.launcher import ExchangeLauncher
from agentic_backend.exchange.past.compactor import Compactor
from agentic_backend.exchange.run.background_calls import BackgroundCalls
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.policy.prompt.token_counts import TokenCounts
from agentic_backend.policy.scopes.agents_in_scope import AgentsInScope
from agentic_backend.policy.scopes.cascade import Cascade
from agentic_backend.policy.scopes.scopes import Scopes
from agentic_backend.sessions.asking.asked_sessions import AskedSessions
from agentic_backend.sessions.asking.exchange_beginnings import ExchangeBeginnings
from agentic_backend.sessions.asking.quitting import QuitAgent
from agentic_backend.sessions.asking.titles import Titles
from agentic_backend.sessions.asking.user_limits import UserLimits
from agentic_backend.sessions.reading.exchange_views import ExchangeViews
from agentic_backend.sessions.server_parts import ServerParts
from agentic_backend.sessions.session_ends import OnEnded, SessionEnds
from agentic_backend.sessions.session_events import SessionEvents
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.upkeep.recovery import Recovery
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.sessions.waiting.resumption import Resumption
from agentic_backend.sessions.waiting.waiting_exchanges import WaitingExchanges


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredExchanges:
    in_scope: AgentsInScope
    services: ExchangeServices
    titles: Titles
    attachments: Attachments
    ends: SessionEnds
    views: ExchangeViews
    user_limits: UserLimits
    waiting: WaitingExchanges
    resumption: Resumption
    launcher: ExchangeLauncher
    recovery: Recovery
    orchestrator: SessionOrchestrator


def wire_exchanges(parts: ServerParts, on_ended: OnEnded) -> WiredExchanges:
    settings, store, relay, kpi = parts.settings, parts.store, parts.relay, parts.kpi
    in_scope = _agents_in_scope(parts)
    timeout_s = settings.limits.titles_timeout_s
    titles = Titles(parts.models, store, relay, kpi, parts.ledger, settings.titles, timeout_s)
    asked = AskedSessions(store, in_scope, parts.modules)
    events = SessionEvents(relay, parts.factory, in_scope, parts.modules, titles, asked, on_ended)
    relay.on_completed = events.close_agents
    ends = SessionEnds(store, relay, parts.factory, kpi, events.ended)
    views = ExchangeViews(parts.instance, store, relay)
    closing = OrphanClosing(store, relay, kpi, events.answered, events.gate)
    services = _exchange_services(parts, events, views, closing)
    attachments = Attachments(store, parts.models, settings.limits, parts.documents)
    launcher = ExchangeLauncher(services, settings.permissions, parts.applications)
    waiting = WaitingExchanges(services, in_scope, launcher, views, closing)
    resumption = Resumption(services, in_scope, launcher)
    user_limits = UserLimits(store, settings.limits)
    recovery = Recovery(closing, resumption.resume_by_itself, ends.finish_quit)
    beginnings = ExchangeBeginnings(
        services,
        in_scope,
        asked,
        recovery=recovery,
        user_limits=user_limits,
        ends=ends,
        quit_agent=QuitAgent(settings.sessions.farewell),
        attachments=attachments,
        waiting=waiting,
    )
    return WiredExchanges(
        in_scope=in_scope,
        services=services,
        titles=titles,
        attachments=attachments,
        ends=ends,
        views=views,
        user_limits=user_limits,
        waiting=waiting,
        resumption=resumption,
        launcher=launcher,
        recovery=recovery,
        orchestrator=SessionOrchestrator(
            services,
            beginnings,
            launcher=launcher,
            views=views,
            waiting=waiting,
            resumption=resumption,
            user_limits=user_limits,
        ),
    )


def _exchange_services(
    parts: ServerParts, events: SessionEvents, views: ExchangeViews, closing: OrphanClosing
) -> ExchangeServices:
    store, relay, kpi, limits = parts.store, parts.relay, parts.kpi, parts.settings.limits
    counts, timeout_s = TokenCounts(), parts.settings.chat_profiles.summary_timeout_s
    return ExchangeServices(
        instance=parts.instance,
        store=store,
        relay=relay,
        factory=parts.factory,
        kpi=kpi,
        limits=limits,
        tokens=parts.tokens,
        ledger=parts.ledger,
        modules=parts.modules,
        profiles=parts.profiles,
        token_counts=counts,
        compactor=Compactor(store, relay, parts.models, parts.ledger, kpi, counts, parts.profiles, timeout_s),
        background=BackgroundCalls(parts.instance, store, relay, limits, kpi),
        show_stored=views.refresh,
        close=closing.close,
        on_answered=events.answered,
        tracing=parts.tracing,
        turns=parts.turns,
    )


def _agents_in_scope(parts: ServerParts) -> AgentsInScope:
    """The agents, with the settings of the server where nothing else says otherwise."""
    agents, policies, limits = parts.agents, parts.policies, parts.settings.limits

    def defaults() -> Mapping[str, Any]:
        return {
            "model": "default",
            "chat_profile": agents.chat_profiles.default_name,
            "limits.run_s": limits.run_timeout_s,
        }

    return AgentsInScope(agents, Scopes(policies), Cascade(policies, defaults), parts.store.now)
