"""The sessions of a server without its transports, on a real database that can be made to fail."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.auth.user import Tokens, User
from agentic_backend.broadcast.base import Alone, Broadcast
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.kpi import Kpi
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.protocol.frames import Ask
from agentic_backend.protocol.messages import Session
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_desk import SessionDesk
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.session_services import open_sessions as open_services
from agentic_backend.sessions.session_services import wire_sessions
from agentic_backend.sessions.upkeep import Upkeep
from agentic_backend.stores.base import Store
from agentic_backend.stores.sqlite import SqliteStore
from support.failing_store import FailingStore
from support.recorded_agents import agent_factory, agent_services, entry_of

PATIENCE_S = 15
USER = User(id="alice", name="Alice")

Event = dict[str, Any]


@dataclass
class Sessions:
    store: FailingStore
    relay: Relay
    factory: AgentFactory
    orchestrator: SessionOrchestrator
    desk: SessionDesk
    upkeep: Upkeep
    kpi: Kpi

    async def begin(self, message: str, *, user: User = USER, **fields: Any) -> ExchangeLog:
        """Ask; the log of what has begun."""
        begun = await self.orchestrator.ask(user, Ask(message=message, **fields), Tokens("token"), "request")
        assert isinstance(begun, ExchangeLog)
        return begun

    async def ask(self, message: str, **fields: Any) -> list[Event]:
        """Ask; every event up to the final."""
        return await events_of(await self.begin(message, **fields))

    async def session(self, session_id: str | None) -> Session:
        session = await self.store.real.get_session(session_id or "")
        assert session is not None
        return session

    async def idle(self, session_id: str | None) -> Session:
        """The session once nothing runs in it according to the store."""
        async with asyncio.timeout(PATIENCE_S):
            while (session := await self.session(session_id)).active_exchange_id is not None:
                await asyncio.sleep(0.02)
        return session

    async def stored(self, session_id: str | None) -> list[Event]:
        """The session's messages as they are stored."""
        rows = await self.store.real.messages_after(session_id or "", -1, 1000)
        return [row.model_dump(mode="json") for row in rows]


async def events_of(log: ExchangeLog, after_seq: int = 0) -> list[Event]:
    """Every event after `after_seq` up to the final, as clients receive them."""
    async with asyncio.timeout(PATIENCE_S):
        await log.wait_ended()
    return [json.loads(event.encode()) for event in log.read(after_seq)]


async def until(log: ExchangeLog, *types: str) -> Event:
    """The first event of one of these types."""
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
    cache_size: int = 8,
    grace_s: float = 0.2,
    keep_ended_bytes: int = 10_000_000,
    database: Store | None = None,
    lease_s: float = 15,
    alone: bool = True,
    broadcast: Broadcast | None = None,
) -> AsyncIterator[Sessions]:
    """Sessions with these agents by id, the first one being the default; leaving it leaves no task behind.

    An agent is given as its entry, or as what its class path would lead to. Without a `database` they are in a SQLite
    file in `directory`.
    """
    before = asyncio.all_tasks()
    limits, kpi, services = limits or LimitsSettings(), Kpi(), agent_services(**models or {})
    store = FailingStore(database or await SqliteStore.open(directory / "chat.sqlite3", timeout_s=5))
    factory = agent_factory(kpi=kpi, services=services, cache_size=cache_size)
    relay = _relay(limits, broadcast or Alone(), keep_ended_bytes, grace_s)
    entries = [
        agent if isinstance(agent, CatalogAgent) else entry_of(agent, agent_id) for agent_id, agent in agents.items()
    ]
    wired = wire_sessions(
        Instance(lease_s),
        store.as_store,
        relay,
        agents=AgentManager(entries, unavailable=(), problems=()),
        factory=factory,
        models=services.models,
        kpi=kpi,
        limits=limits,
    )
    try:
        async with open_services(wired, alone=alone):
            yield Sessions(store, relay, factory, wired.orchestrator, wired.desk, wired.upkeep, kpi)
    finally:
        await relay.aclose()
        await factory.aclose()
        await store.real.aclose()
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        # Other sessions may be at an operation of their store just now.
        _, left = await asyncio.wait(left, timeout=1)
    assert not left, f"tasks are left behind: {left}"


def idle_relay() -> Relay:
    """The relay of an instance that runs nothing."""
    return _relay(LimitsSettings(), Alone(), 0, 0)


def _relay(limits: LimitsSettings, broadcast: Broadcast, keep_ended_bytes: int, grace_s: float) -> Relay:
    return Relay(
        broadcast=broadcast,
        keep_ended_bytes=keep_ended_bytes,
        keep_ended_s=60,
        compact_after=512,
        max_running=limits.max_running,
        running_per_user=limits.running_per_user,
        grace_s=grace_s,
    )
