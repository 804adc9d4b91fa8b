"""The parts of this package, wired: what transports talk to, and what runs beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models import ChatModels
from agentic_backend.kpi import Kpi
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.sessions.closing import Closing
from agentic_backend.sessions.exchange_launcher import ExchangeLauncher
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.kpi_report import KpiReports
from agentic_backend.sessions.recovery import Recovery
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.resumption import Resumption
from agentic_backend.sessions.session_desk import SessionDesk
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.titles import Titles
from agentic_backend.sessions.upkeep import Upkeep
from agentic_backend.sessions.user_limits import UserLimits
from agentic_backend.sessions.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import Store


@dataclass(frozen=True, slots=True)
class SessionServices:
    orchestrator: SessionOrchestrator
    desk: SessionDesk
    reports: KpiReports
    upkeep: Upkeep


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
) -> SessionServices:
    titles = Titles(models, store, relay, limits.titles_timeout_s)
    views, closing = ExchangeViews(instance, store, relay), Closing(store, relay, kpi)
    launcher = ExchangeLauncher(
        store=store, factory=factory, relay=relay, titles=titles, views=views, kpi=kpi, limits=limits
    )
    waiting = WaitingExchanges(
        instance, store, relay, agents=agents, launcher=launcher, views=views, closing=closing, kpi=kpi
    )
    resumption = Resumption(instance, store, relay, agents=agents, launcher=launcher)
    user_limits = UserLimits(store, limits)
    recovery = Recovery(closing, resumption.resume_by_itself)
    orchestrator = SessionOrchestrator(
        instance,
        store,
        relay,
        agents=agents,
        launcher=launcher,
        views=views,
        waiting=waiting,
        resumption=resumption,
        recovery=recovery,
        user_limits=user_limits,
        limits=limits,
    )
    return SessionServices(
        orchestrator=orchestrator,
        desk=SessionDesk(store, agents, factory, relay, orchestrator, user_limits),
        reports=KpiReports(store),
        upkeep=Upkeep(instance, store, relay, recovery=recovery, waiting=waiting, views=views, kpi=kpi),
    )


@asynccontextmanager
async def open_sessions(services: SessionServices, *, alone: bool) -> AsyncIterator[None]:
    """The upkeep runs while the context is open; before, where this instance is `alone` on its store, what was left.

    Raises StoreUnavailable.
    """
    if alone:
        await services.upkeep.recover_all()
    upkeep = asyncio.create_task(services.upkeep.run())
    try:
        yield
    finally:
        upkeep.cancel()
        await asyncio.wait({upkeep})
