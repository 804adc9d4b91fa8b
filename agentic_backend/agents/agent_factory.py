"""AgentFactory: warm agents per (session, agent), built once, kept in a bounded LRU, closed exactly once.

An agent that is in use stands in `_in_use` and nowhere else, so that an eviction can't reach it; an idle one stands in
the LRU. Queries have no session: their agents are built for one use. Agents close in tasks of the factory's own: no
exchange waits for the end of another's agent, and none that is stopped cuts a closing in two.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from cachetools import LRUCache
from langgraph.graph.state import CompiledStateGraph
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
                if warm.agent is None:
                    warm.agent = await self._build(entry, context)
                else:
                    warm.agent.runtime_context = context
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
        await asyncio.shield(self._close([warm.flow for warm in idle]))

    async def aclose(self) -> None:
        """Close every idle agent and await what closes already, all at the same time."""
        while self._idle:
            self._close([self._idle.popitem()[1].flow])
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
        if warm.agent is not None and warm.keep:
            self._keep(warm)
        elif warm.agent is not None:
            self._close([warm.agent])
        self._count()

    def _keep(self, warm: WarmAgent) -> None:
        if self._idle.currsize >= self._idle.maxsize:
            self._kpi.agent_evicted()
            self._close([self._idle.popitem()[1].flow])
        self._idle[warm.key] = warm

    def _count(self) -> None:
        self._kpi.agents_cached(len(self._in_use) + len(self._idle))

    async def _build(self, entry: CatalogAgent, context: RuntimeContext) -> AgentFlow:
        agent: AgentFlow | None = None
        try:
            async with asyncio.timeout(self.build_timeout_s):
                agent = await self._instantiate(entry, context)
                await agent.async_init()
            _require_messages(agent)
        except BaseException as error:
            if agent is not None:
                self._close([agent])
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


async def _call(factory: Any, entry: CatalogAgent, services: AgentServices) -> CompiledGraph:
    """Call an author's function; one that takes an argument gets the chat model that its entry names."""
    arguments = (services.models.get(entry.settings.model),) if inspect.signature(factory).parameters else ()
    if inspect.iscoroutinefunction(factory):
        return cast(CompiledGraph, await factory(*arguments))
    # A plain function may read files or import a provider: off the event loop.
    made = await asyncio.to_thread(factory, *arguments)
    return cast(CompiledGraph, await made if inspect.isawaitable(made) else made)


def _require_messages(agent: AgentFlow) -> None:
    graph = agent.get_compiled_graph()
    if "messages" not in graph.channels:
        raise AgentUnavailable(
            f"The graph of the agent '{agent.settings.id}' has no 'messages' channel in its state; it needs one."
        )
    if "messages" not in _input_channels(graph):
        raise AgentUnavailable(
            f"The graph of the agent '{agent.settings.id}' has no 'messages' in its input schema; it needs them there."
        )


def _input_channels(graph: CompiledGraph) -> Container[str]:
    """The channels that a graph takes as input. A state graph's own `input_channels` holds only its start channel."""
    if isinstance(graph, CompiledStateGraph):
        return graph.builder.schemas[graph.builder.input_schema]
    return [graph.input_channels] if isinstance(graph.input_channels, str) else graph.input_channels
