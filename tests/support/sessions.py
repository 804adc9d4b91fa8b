"""The sessions of a server without transports, on a real database that can be made to fail."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import Tokens, User
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.settings import ModelSettings, Settings
from agentic_backend.config.topics.chat_profiles import (
    BUILT_IN_PROFILES,
    ChatProfile,
    ChatProfiles,
    ChatProfilesSettings,
)
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.config.topics.sessions import RetentionSettings, SessionsSettings, TitlesSettings
from agentic_backend.config.topics.usage import BudgetsSettings, PriceSettings
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.past.compactor import Compactor
from agentic_backend.exchange.run.background_calls import BackgroundCalls
from agentic_backend.kpi import Kpi
from agentic_backend.policy.hooks.module_services import module_services
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.hooks.modules_file import ModuleSpec
from agentic_backend.policy.scopes.policies_file import Policies
from agentic_backend.policy.scopes.scopes import Scopes
from agentic_backend.policy.usage.budgets import Budgets
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.protocol.events import Final
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.backlog import Backlog
from agentic_backend.relay.broadcast import Alone, Broadcast
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.branches import Branches
from agentic_backend.sessions.server_parts import ServerParts
from agentic_backend.sessions.session_ends import OnEnded
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.sessions.upkeep.housekeeping import Housekeeping
from agentic_backend.sessions.upkeep.maintenance import Maintenance
from agentic_backend.sessions.users.user_deletions import UserDeletions
from agentic_backend.sessions.users.user_export import UserExport
from agentic_backend.sessions.wiring import open_sessions as open_services
from agentic_backend.sessions.wiring import wire_sessions
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.stores.records import ExchangeRecord, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.streaming.model.stream_turns import StreamTurns
from agentic_backend.tools.standard_tools import standard_tools
from agentic_backend.tracing.tracing import Tracing
from support.failing_store import FailingStore
from support.recorded_agents import agent_factory, agent_services, entry_of

PATIENCE_S = 30
USER = User(id="alice", name="Alice")

Event = dict[str, Any]

WHOLE_HISTORY = ChatProfiles({"default": ChatProfile(compaction_threshold_tokens=None, max_history_turns=None)})
"""Sessions are never compacted."""


@dataclass
class Sessions:
    store: FailingStore
    relay: Relay
    factory: AgentFactory
    orchestrator: SessionOrchestrator
    service: SessionService
    maintenance: Maintenance
    housekeeping: Housekeeping
    user_export: UserExport
    user_deletions: UserDeletions
    kpi: Kpi
    compactor: Compactor
    background: BackgroundCalls
    branches: Branches

    async def begin(self, message: str, *, user: User = USER, **fields: Any) -> ExchangeLog:
        """Ask; return the exchange's log."""
        turn = Turn(parts=[TextPart(text=message)], **fields)
        begun = await self.orchestrator.ask(user, turn, Tokens("token"), "request")
        return begun

    async def stored_final(self, exchange_id: str, session_id: str | None = None) -> Final:
        """The final of an ended exchange whose events are no longer kept."""
        return only_final(await self.orchestrator.view(USER, exchange_id, session_id))

    async def ask(self, message: str, **fields: Any) -> list[Event]:
        """Ask; return every event up to the final."""
        return await events_of(await self.begin(message, **fields))

    async def session(self, session_id: str | None) -> SessionRecord:
        session = await self.store.real.get_session(session_id or "")
        assert session is not None
        return session

    async def record(self, exchange_id: str) -> ExchangeRecord:
        record = await self.store.real.get_exchange(exchange_id)
        assert record is not None
        return record

    async def idle(self, session_id: str | None) -> SessionRecord:
        """Wait until the store has no active exchange in the session; return the session."""
        async with asyncio.timeout(PATIENCE_S):
            while (session := await self.session(session_id)).active_exchange_id is not None:
                await asyncio.sleep(0.02)
        return session

    async def stored(self, session_id: str | None) -> list[Event]:
        """The session's stored messages."""
        rows = await self.store.real.messages_after(session_id or "", -1, 1000)
        return [row.shown().model_dump(mode="json") for row in rows]


def scope_facts(kind: str, scope_id: str) -> Mapping[str, Any]:
    """What the tests' standard tools are told of a scope."""
    return {"name": f"{kind} {scope_id}"}


def only_final(log: ExchangeLog) -> Final:
    """The final of a log, which must contain nothing else."""
    assert log.is_stored_final and log.final is not None
    assert log.read(0) == [log.final]
    return log.final


async def events_of(log: ExchangeLog) -> list[Event]:
    """Every event up to the final, as clients receive them."""
    async with asyncio.timeout(PATIENCE_S):
        await log.wait_ended()
    return [json.loads(event.encode()) for event in log.read(0)]


async def until(log: ExchangeLog, *types: str) -> Event:
    """Wait for the first event of one of these types."""
    changed = asyncio.Event()
    cursor = log.follow(0, changed.set)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for event in map(json.loads, (event.encode() for event in cursor.take())):
                    if event["type"] in types:
                        found: Event = event
                        return found
                await changed.wait()
                changed.clear()
    finally:
        log.unfollow(cursor)


@asynccontextmanager
async def open_sessions(
    directory: Path,
    agents: Mapping[str, object],
    *,
    models: Mapping[str, BaseChatModel] | None = None,
    limits: LimitsSettings | None = None,
    titles: TitlesSettings | None = None,
    profiles: ChatProfiles = BUILT_IN_PROFILES,
    summary_timeout_s: float = 5,
    prices: Sequence[PriceSettings] = (),
    budgets: BudgetsSettings | None = None,
    modules: Sequence[ModuleSpec] = (),
    module_point_timeout_s: float = 10,
    permissions: PermissionsSettings | None = None,
    retention: RetentionSettings | None = None,
    cache_size: int = 8,
    grace_s: float = 0.2,
    keep_ended_bytes: int = 10_000_000,
    database: Store | None = None,
    lease_s: float = 15,
    alone: bool = True,
    broadcast: Broadcast | None = None,
    policies: Policies | None = None,
    ending: SessionsSettings | None = None,
    on_ended: OnEnded = lambda session, user: None,
    backlog: Backlog | None = None,
) -> AsyncIterator[Sessions]:
    """Sessions with these agents by id, the first as the default; check at the end that no task is left.

    An agent is a catalog entry, or the object of a class path. Without a `database` the sessions are in a SQLite file
    in `directory`.
    """
    before = asyncio.all_tasks()
    limits, kpi, services = limits or LimitsSettings(), Kpi(), agent_services(**models or {})
    store = FailingStore(database or await SqliteStore.open(directory / "chat.sqlite3", timeout_s=5))
    tools = standard_tools(store.as_store, ItemBounds(), scope_facts)
    factory = agent_factory(kpi=kpi, services=replace(services, standard_tools=tools), cache_size=cache_size)
    ledger = UsageLedger(store.as_store, Prices(prices), kpi, Budgets(store.as_store, budgets))
    relay = _relay(limits, broadcast or Alone(), keep_ended_bytes, grace_s, backlog)
    facts = Scopes(policies or Policies()).facts
    supervisor = ModuleSupervisor(store.as_store, kpi, relay.spawn, module_point_timeout_s, facts)
    await supervisor.start(modules, module_services(services.models, ledger))
    entries = [
        agent if isinstance(agent, CatalogAgent) else entry_of(agent, agent_id) for agent_id, agent in agents.items()
    ]
    parts = ServerParts(
        instance=Instance(lease_s),
        store=store.as_store,
        relay=relay,
        agents=AgentManager(entries, unavailable=(), problems=(), chat_profiles=profiles),
        factory=factory,
        models=services.models,
        kpi=kpi,
        settings=Settings(
            models={name: ModelSettings() for name in models or {}},
            limits=limits,
            titles=titles or TitlesSettings(),
            sessions=ending or SessionsSettings(),
            retention=retention or RetentionSettings(),
            chat_profiles=ChatProfilesSettings(summary_timeout_s=summary_timeout_s),
            permissions=permissions or PermissionsSettings(),
        ),
        policies=policies or Policies(),
        tokens=TokenCache(DeveloperAuthenticator("developer").refresh),
        ledger=ledger,
        modules=supervisor,
        tracing=Tracing(),
        turns=StreamTurns(),
    )
    wired = wire_sessions(parts, on_ended)
    try:
        async with open_services(wired, alone=alone):
            running = wired.orchestrator, wired.service, wired.maintenance, wired.housekeeping
            kept = wired.user_export, wired.user_deletions, kpi, wired.compactor, wired.background
            yield Sessions(store, relay, factory, *running, *kept, wired.branches)
    finally:
        await relay.aclose()
        await factory.aclose()
        await supervisor.aclose()
        await ledger.aclose()
        await store.real.aclose()
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        # Other sessions may be in a store operation.
        _, left = await asyncio.wait(left, timeout=PATIENCE_S)
    assert not left, f"tasks are left behind: {left}"


def idle_relay() -> Relay:
    """The relay of an instance without exchanges."""
    return _relay(LimitsSettings(), Alone(), 0, 0)


def _relay(
    limits: LimitsSettings,
    broadcast: Broadcast,
    keep_ended_bytes: int,
    grace_s: float,
    backlog: Backlog | None = None,
) -> Relay:
    return Relay(
        broadcast=broadcast,
        keep_ended_bytes=keep_ended_bytes,
        max_running=limits.max_running,
        running_per_user=limits.running_per_user,
        grace_s=grace_s,
        backlog=backlog,
    )
