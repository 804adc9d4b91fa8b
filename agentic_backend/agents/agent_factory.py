"""AgentFactory: warm agents per (session, agent), built once, kept in a bounded LRU, closed exactly once.

An agent that is in use stands in `_in_use` and nowhere else, so that an eviction can't reach it; an idle one stands in
the LRU. Queries have no session: their agents are built for one use.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from cachetools import LRUCache
from langgraph.pregel import Pregel

from agentic_backend.agents.agent_flow import AgentFlow, AgentServices, CompiledGraph, GraphFlow
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.errors import AgenticError, AgentUnavailable
from agentic_backend.kpi import Kpi

log = logging.getLogger(__name__)

Key = tuple[str | None, str]


@dataclass(eq=False, slots=True)
class WarmAgent:
    """An agent and what is remembered beside it.

    `memory` is the orchestrator's: the history that the agent's session had when it was last used.
    """

    key: Key
    agent: AgentFlow | None = None
    memory: Any = None
    users: int = 0
    keep: bool = True
    building: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def flow(self) -> AgentFlow:
        assert self.agent is not None, "a leased agent is built"
        return self.agent


class AgentFactory:
    def __init__(
        self, services: AgentServices, kpi: Kpi, *, cache_size: int, build_timeout_s: float, close_timeout_s: float
    ) -> None:
        self._services = services
        self._kpi = kpi
        self._build_timeout_s = build_timeout_s
        self._close_timeout_s = close_timeout_s
        self._idle: LRUCache[Key, WarmAgent] = LRUCache(cache_size)
        self._in_use: dict[Key, WarmAgent] = {}

    @asynccontextmanager
    async def lease(self, entry: CatalogAgent, context: RuntimeContext) -> AsyncIterator[WarmAgent]:
        """The agent of `entry` for the session in `context`, built if need be, not evicted while it is held.

        Raises AgentUnavailable where it can't be built.
        """
        warm = self._take((context.session_id, entry.settings.id))
        try:
            # Single flight: a second lease of the same agent waits here, and finds it built.
            async with warm.building:
                if warm.agent is None:
                    warm.agent = await self._build(entry, context)
                else:
                    warm.agent.runtime_context = context
            yield warm
        finally:
            await self._give_back(warm)

    async def teardown_session_agents(self, session_id: str) -> None:
        """Close the session's agents, one after the other; those in use are closed by their last user."""
        for warm in self._in_use.values():
            if warm.key[0] == session_id:
                warm.keep = False
        for key in [key for key in self._idle if key[0] == session_id]:
            await self._close(self._idle.pop(key))

    async def aclose(self) -> None:
        while self._idle:
            await self._close(self._idle.popitem()[1])

    def _take(self, key: Key) -> WarmAgent:
        if key[0] is None:
            return WarmAgent(key, users=1, keep=False)
        warm = self._in_use.get(key) or self._idle.pop(key, None)
        self._kpi.agent_cache(hit=warm is not None)
        warm = warm or WarmAgent(key)
        warm.users += 1
        self._in_use[key] = warm
        return warm

    async def _give_back(self, warm: WarmAgent) -> None:
        warm.users -= 1
        if warm.users:
            return
        self._in_use.pop(warm.key, None)
        if not warm.keep or warm.agent is None:
            await self._close(warm)
            return
        evicted = []
        while self._idle.currsize >= self._idle.maxsize:
            evicted.append(self._idle.popitem()[1])
        self._idle[warm.key] = warm
        for old in evicted:
            self._kpi.agent_evicted()
            await self._close(old)

    async def _build(self, entry: CatalogAgent, context: RuntimeContext) -> AgentFlow:
        agent: AgentFlow | None = None
        try:
            async with asyncio.timeout(self._build_timeout_s):
                agent = await self._instantiate(entry, context)
                await agent.async_init()
            _require_messages(agent)
        except BaseException as error:
            if agent is not None:
                await self._close(WarmAgent((None, entry.settings.id), agent))
            if isinstance(error, AgenticError) or not isinstance(error, Exception):
                raise
            # An author's code may raise anything: this is the edge where it becomes a typed error.
            log.exception("agent could not be built", extra={"agent_id": entry.settings.id})
            raise AgentUnavailable(f"The agent '{entry.settings.id}' could not be started.") from error
        return agent

    async def _instantiate(self, entry: CatalogAgent, context: RuntimeContext) -> AgentFlow:
        target = entry.target
        if isinstance(target, type) and issubclass(target, AgentFlow):
            return target(entry.settings, self._services, context)
        if not isinstance(target, Pregel):
            target = await _call(cast(Any, target), entry, self._services)
        if not isinstance(target, Pregel):
            raise AgentUnavailable(f"The class_path of the agent '{entry.settings.id}' returned no compiled graph.")
        return GraphFlow(entry.settings, self._services, context, target)

    async def _close(self, warm: WarmAgent) -> None:
        if warm.agent is None:
            return
        try:
            async with asyncio.timeout(self._close_timeout_s):
                await warm.agent.aclose()
        except Exception:
            log.exception("agent could not be closed", extra={"agent_id": warm.key[1]})


async def _call(factory: Any, entry: CatalogAgent, services: AgentServices) -> CompiledGraph:
    """Call an author's function; one that takes an argument gets the chat model that its entry names."""
    arguments = (services.models.get(entry.settings.model),) if inspect.signature(factory).parameters else ()
    if inspect.iscoroutinefunction(factory):
        return cast(CompiledGraph, await factory(*arguments))
    # A plain function may read files or import a provider: off the event loop.
    return cast(CompiledGraph, await asyncio.to_thread(factory, *arguments))


def _require_messages(agent: AgentFlow) -> None:
    if "messages" not in agent.get_compiled_graph().channels:
        raise AgentUnavailable(
            f"The graph of the agent '{agent.settings.id}' has no 'messages' channel in its state; it needs one."
        )
