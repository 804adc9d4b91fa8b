"""AgentFactory: one warm agent per (session, agent), built once, kept in a bounded LRU, closed exactly once.

An agent in use is only in `_in_use`, where an eviction can't reach it; an idle one is only in the LRU. A query has no
session: its agent is built for one use. The factory closes agents in its own tasks: no exchange waits for another
agent to close, and stopping an exchange does not cancel a close.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.agents.agent_building import build
from agentic_backend.agents.agent_flow import AgentFlow, AgentServices
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.state.state_serializer import StateSerializer
from agentic_backend.config.settings import AgentsSettings
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.disclosure.known_secrets import secrets_in, secrets_of
from agentic_backend.disclosure.readable_errors import readable_errors
from agentic_backend.errors import AgenticError, AgentUnavailable
from agentic_backend.kpi import Kpi
from agentic_backend.loop.loop_load import served_timeout

log = logging.getLogger(__name__)

Key = tuple[str | None, str]


@dataclass(eq=False, slots=True)
class WarmAgent:
    """A built agent and the memory of its session."""

    key: Key
    """The session's id (None for a query) and the agent's id."""
    entry: CatalogAgent
    """The catalog's entry with the settings that applied when it was built."""
    user_id: str = ""
    agents: Sequence[AgentFlow] = ()
    """The agent itself and, behind a leader, its crew; empty until they are built."""
    memory: Any = None
    """The session's history and graph states after its last exchange with this agent; set by the exchanges."""
    users: int = 0
    """The number of leases that hold it."""
    keep: bool = True
    """Whether it returns to the cache after its last lease."""
    building: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the agent is built: a second lease waits for the same agent."""

    @property
    def flow(self) -> AgentFlow:
        assert self.agents, "a leased agent is built"
        return self.agents[0]

    @property
    def serde(self) -> StateSerializer:
        """The serializer of what is stored of its graph, and of those of its crew, which run within the same."""
        return StateSerializer(_StateTypes(self.agents), self.flow.services.state_types)


@dataclass(frozen=True, slots=True)
class _StateTypes:
    """The classes that the states of agents name, found when one is needed first: most states hold messages alone."""

    agents: Sequence[AgentFlow]

    def __iter__(self) -> Iterator[type]:
        return iter({cls for agent in self.agents for cls in agent.state_types})


class AgentFactory:
    def __init__(self, services: AgentServices, kpi: Kpi, settings: AgentsSettings) -> None:
        self._services = services
        self._kpi = kpi
        self.build_timeout_s = settings.build_timeout_s
        """The longest time an agent may take to start and to close, in seconds."""
        self.secrets = secrets_among(services.models, services.mcp_servers)
        """The secrets of the models and MCP servers, which an author's code could quote."""
        self._close_timeout_s = settings.close_timeout_s
        self._idle_at_most = settings.cache_size
        self._idle: dict[Key, WarmAgent] = {}
        """The agents without a lease; the least recently used one is the first. Plain, like those in use: other threads
        list them, and Python code that ran meanwhile would let them change.
        """
        self._in_use: dict[Key, WarmAgent] = {}
        """The agents that are leased."""
        kpi.agents.cached(self._held)
        self._closing: set[asyncio.Task[None]] = set()
        """The tasks that close agents; `aclose` awaits them."""

    @asynccontextmanager
    async def lease(
        self, entry: CatalogAgent, context: RuntimeContext, *, beside: bool = False
    ) -> AsyncIterator[WarmAgent]:
        """Lease the agent of `entry` for the session in `context`; build it if needed. A leased agent is not evicted.

        `beside`: an exchange that has leased it keeps its own context. Raises AgentUnavailable if it can't be built.
        """
        warm = self._take((context.session_id, entry.settings.id), entry)
        warm.user_id = context.user_id
        try:
            async with warm.building:
                if warm.users == 1 and any(agent.has_ended for agent in warm.agents):
                    self._close(warm.agents)
                    warm.agents = ()
                warm.agents = warm.agents or await self._build(entry, context)
                if warm.users == 1 or not beside:
                    for agent in warm.agents:
                        agent.runtime_context = context
            yield warm
        finally:
            self._give_back(warm)

    def warm(self, session_id: str, agent_id: str) -> WarmAgent | None:
        """The session's agent as it was built; None if it is not warm."""
        key = (session_id, agent_id)
        return self._in_use.get(key) or self._idle.get(key)

    async def teardown_session_agents(self, session_id: str) -> None:
        """Close the session's agents one by one; an agent in use closes after its last lease."""
        await self._teardown(lambda warm: warm.key[0] == session_id)

    async def teardown_user_agents(self, user_id: str) -> None:
        """The same for all of a user's agents."""
        await self._teardown(lambda warm: warm.user_id == user_id)

    async def teardown_agents(self, agent_ids: Collection[str]) -> None:
        """The same for these agents in all sessions."""
        await self._teardown(lambda warm: warm.key[1] in agent_ids)

    async def _teardown(self, goes: Callable[[WarmAgent], bool]) -> None:
        for warm in self._in_use.values():
            if goes(warm):
                warm.keep = False
        idle = [self._idle.pop(warm.key) for warm in list(self._idle.values()) if goes(warm)]
        # No session waits for the agents of another.
        by_session: dict[str | None, list[AgentFlow]] = {}
        for warm in idle:
            by_session.setdefault(warm.key[0], []).extend(warm.agents)
        # Shielded: agents that have left the cache must close even if the caller is cancelled.
        await asyncio.shield(asyncio.gather(*map(self._close, by_session.values())))

    async def aclose(self) -> None:
        """Close every idle agent concurrently, and wait for the ones that already close."""
        # Each agent closes in its own task: one that hangs delays no other.
        while self._idle:
            self._close(self._idle.popitem()[1].agents)
        # All of them share the timeout of one agent. Code that runs longer ends with the process.
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._close_timeout_s)

    def _take(self, key: Key, entry: CatalogAgent) -> WarmAgent:
        if key[0] is None:
            return WarmAgent(key, entry, users=1, keep=False)
        warm = self._in_use.get(key) or self._idle.pop(key, None)
        if warm is not None and warm.entry is not entry and warm.entry != entry:
            warm = self._replaced(warm, entry)
        self._kpi.agents.looked_up(hit=warm is not None and bool(warm.agents))
        warm = warm or WarmAgent(key, entry)
        warm.users += 1
        self._in_use[key] = warm
        return warm

    def _replaced(self, warm: WarmAgent, entry: CatalogAgent) -> WarmAgent:
        """An agent to build with other settings, which goes on with the session's memory; the old one closes."""
        if warm.users:
            warm.keep = False
        else:
            self._close(warm.agents)
        return WarmAgent(warm.key, entry, memory=warm.memory)

    def _give_back(self, warm: WarmAgent) -> None:
        warm.users -= 1
        if warm.users:
            return
        # Another one, with other settings, may have taken its place.
        if self._in_use.get(warm.key) is warm:
            del self._in_use[warm.key]
        if warm.agents and warm.keep:
            self._keep(warm)
        elif warm.agents:
            self._close(warm.agents)

    def _keep(self, warm: WarmAgent) -> None:
        if len(self._idle) >= self._idle_at_most:
            self._kpi.agents.evicted()
            self._close(self._idle.pop(next(iter(self._idle))).agents)
        self._idle[warm.key] = warm

    def _held(self) -> Counter[str]:
        """How many agents are warm or in use, by their ids. From any thread."""
        return Counter(agent_id for _, agent_id in (*list(self._in_use), *list(self._idle)))

    async def _build(self, entry: CatalogAgent, context: RuntimeContext) -> Sequence[AgentFlow]:
        agents: list[AgentFlow] = []
        try:
            async with served_timeout(self.build_timeout_s):
                with readable_errors():
                    await build(entry, self._services, context, agents)
        except BaseException as error:
            if agents:
                self._close(agents)
            if isinstance(error, AgenticError | asyncio.CancelledError):
                raise
            # An author's code may raise anything, or exit; it becomes a typed error here, which its exchange logs.
            raise AgentUnavailable(f"The agent '{entry.settings.id}' could not be started.") from error
        return agents

    def _close(self, agents: Sequence[AgentFlow]) -> asyncio.Task[None]:
        return self._hold(asyncio.create_task(self._close_in_turn(agents)))

    async def _close_in_turn(self, agents: Sequence[AgentFlow]) -> None:
        for agent in agents:
            closing = self._hold(asyncio.create_task(self._aclose(agent)))
            await asyncio.wait({closing}, timeout=self._close_timeout_s)
            if not closing.done():
                # Cancelled but not awaited: an author's code may ignore the cancellation.
                closing.cancel()
                log.error("agent not closed in time", extra={"agent_id": agent.settings.id})

    async def _aclose(self, agent: AgentFlow) -> None:
        try:
            await agent.aclose()
        # An author's code may raise anything, or exit.
        except (Exception, KeyboardInterrupt, SystemExit):
            log.exception("agent not closed", extra={"agent_id": agent.settings.id})

    def _hold(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task


def secrets_among(models: ChatModels, mcp_servers: Mapping[str, McpServerSettings]) -> Sequence[str]:
    """The secrets in the environment and in the settings of models and MCP servers, longest first."""
    servers = {name: server.model_dump() for name, server in mcp_servers.items()}
    found = {*secrets_of(), *models.secrets, *secrets_in(servers)}
    return sorted(found, key=len, reverse=True)
