"""AgentFactory: warm agents per (session, agent), built once, kept in a bounded LRU, closed exactly once.

An agent that is in use stands in `_in_use` and nowhere else, so that an eviction can't reach it; an idle one stands in
the LRU. Queries have no session: their agents are built for one use. Agents close in tasks of the factory's own: no
exchange waits for the end of another's agent, and none that is stopped cuts a closing in two.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache

from agentic_backend.agents.agent_building import build
from agentic_backend.agents.agent_flow import AgentFlow, AgentServices
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.errors import AgenticError, AgentUnavailable
from agentic_backend.kpi import Kpi

log = logging.getLogger(__name__)

Key = tuple[str | None, str]


@dataclass(eq=False, slots=True)
class WarmAgent:
    """An agent and what is remembered beside it.

    `agents` are the agent itself and, behind a leader, its crew; empty until they are built. `memory` is the
    orchestrator's: the history that the agent's session had when it was last used.
    """

    key: Key
    agents: Sequence[AgentFlow] = ()
    memory: Any = None
    users: int = 0
    keep: bool = True
    building: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def flow(self) -> AgentFlow:
        assert self.agents, "a leased agent is built"
        return self.agents[0]


class AgentFactory:
    def __init__(
        self, services: AgentServices, kpi: Kpi, *, cache_size: int, build_timeout_s: float, close_timeout_s: float
    ) -> None:
        self._services = services
        self._kpi = kpi
        self.build_timeout_s = build_timeout_s
        self._close_timeout_s = close_timeout_s
        self._idle: LRUCache[Key, WarmAgent] = LRUCache(cache_size)
        self._in_use: dict[Key, WarmAgent] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def lease(self, entry: CatalogAgent, context: RuntimeContext) -> AsyncIterator[WarmAgent]:
        """The agent of `entry` for the session in `context`, built if need be, not evicted while it is held.

        Raises AgentUnavailable where it can't be built.
        """
        warm = self._take((context.session_id, entry.settings.id))
        try:
            # Single flight: a second lease of the same agent waits here, and finds it built.
            async with warm.building:
                warm.agents = warm.agents or await self._build(entry, context)
                for agent in warm.agents:
                    agent.runtime_context = context
            yield warm
        finally:
            self._give_back(warm)

    async def teardown_session_agents(self, session_id: str) -> None:
        """Close the session's agents, one after the other; those in use are closed when they are given back."""
        for warm in self._in_use.values():
            if warm.key[0] == session_id:
                warm.keep = False
        idle = [self._idle.pop(key) for key in [key for key in self._idle if key[0] == session_id]]
        self._count()
        # Shielded: what has left the cache is closed, though whoever waits for it may go.
        await asyncio.shield(self._close([agent for warm in idle for agent in warm.agents]))

    async def aclose(self) -> None:
        """Close every idle agent and await what closes already, all at the same time."""
        while self._idle:
            self._close(self._idle.popitem()[1].agents)
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._close_timeout_s)

    def _take(self, key: Key) -> WarmAgent:
        if key[0] is None:
            return WarmAgent(key, users=1, keep=False)
        warm = self._in_use.get(key) or self._idle.pop(key, None)
        self._kpi.agent_cache(hit=warm is not None)
        warm = warm or WarmAgent(key)
        warm.users += 1
        self._in_use[key] = warm
        self._count()
        return warm

    def _give_back(self, warm: WarmAgent) -> None:
        warm.users -= 1
        if warm.users:
            return
        self._in_use.pop(warm.key, None)
        if warm.agents and warm.keep:
            self._keep(warm)
        elif warm.agents:
            self._close(warm.agents)
        self._count()

    def _keep(self, warm: WarmAgent) -> None:
        if self._idle.currsize >= self._idle.maxsize:
            self._kpi.agent_evicted()
            self._close(self._idle.popitem()[1].agents)
        self._idle[warm.key] = warm

    def _count(self) -> None:
        self._kpi.agents_cached(len(self._in_use) + len(self._idle))

    async def _build(self, entry: CatalogAgent, context: RuntimeContext) -> Sequence[AgentFlow]:
        agents: list[AgentFlow] = []
        try:
            async with asyncio.timeout(self.build_timeout_s):
                await build(entry, self._services, context, agents)
        except BaseException as error:
            if agents:
                self._close(agents)
            if isinstance(error, AgenticError) or not isinstance(error, Exception):
                raise
            # An author's code may raise anything: this is the edge where it becomes a typed error.
            log.exception("agent could not be built", extra={"agent_id": entry.settings.id})
            raise AgentUnavailable(f"The agent '{entry.settings.id}' could not be started.") from error
        return agents

    def _close(self, agents: Sequence[AgentFlow]) -> asyncio.Task[None]:
        return self._hold(asyncio.create_task(self._close_in_turn(agents)))

    async def _close_in_turn(self, agents: Sequence[AgentFlow]) -> None:
        for agent in agents:
            closing = self._hold(asyncio.create_task(self._aclose(agent)))
            await asyncio.wait({closing}, timeout=self._close_timeout_s)
            if not closing.done():
                # Not awaited any more: an author's code may ignore its cancellation too.
                closing.cancel()
                log.error("agent did not close in time", extra={"agent_id": agent.settings.id})

    async def _aclose(self, agent: AgentFlow) -> None:
        try:
            await agent.aclose()
        except Exception:
            log.exception("agent could not be closed", extra={"agent_id": agent.settings.id})

    def _hold(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task
