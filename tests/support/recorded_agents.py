"""Agents that record how they are built and closed, and an AgentFactory for them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, get_args

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from prometheus_client.parser import text_string_to_metric_families

from agentic_backend.agents.agent_factory import AgentFactory, WarmAgent
from agentic_backend.agents.agent_flow import AgentFlow, AgentServices, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent, require_servable
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens
from agentic_backend.auth.user_tokens import UserTokens
from agentic_backend.config.settings import AgentsSettings
from agentic_backend.kpi import Kpi
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.system_errors import Away

PATIENCE_S = 10
_EVENTUALLY_S = 30

Step = Callable[[], Awaitable[None]]


def one_node(node: Any) -> CompiledGraph:
    """A graph whose only node is `node`."""
    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile()


def echoing_graph() -> CompiledGraph:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"echo: {state['messages'][-1].text}")]}

    return one_node(answer)


async def _at_once() -> None:
    await asyncio.sleep(0)


@dataclass
class Journal:
    """`building` and `closing` run inside each agent's `async_init` and `aclose`."""

    building: Step = _at_once
    closing: Step = _at_once
    built: list[AgentFlow] = field(default_factory=list)
    closing_began: list[AgentFlow] = field(default_factory=list)
    closed: list[AgentFlow] = field(default_factory=list)
    closing_now: int = 0
    most_closing_at_once: int = 0

    def agent_class(self) -> type[AgentFlow]:
        journal = self

        class Recorded(AgentFlow):
            async def async_init(self) -> None:
                journal.built.append(self)
                await journal.building()
                self.graph = echoing_graph()

            def get_compiled_graph(self) -> CompiledGraph:
                return self.graph

            async def aclose(self) -> None:
                journal.closing_began.append(self)
                journal.closing_now += 1
                journal.most_closing_at_once = max(journal.most_closing_at_once, journal.closing_now)
                try:
                    await journal.closing()
                    journal.closed.append(self)
                finally:
                    journal.closing_now -= 1

        return Recorded

    def entry(self, agent_id: str = "recorded") -> CatalogAgent:
        return entry_of(self.agent_class(), agent_id)


def entry_of(target: object, agent_id: str = "recorded", **settings: Any) -> CatalogAgent:
    """A catalog entry with `target` as the object of its class path."""
    require_servable(target)
    return CatalogAgent(AgentSettings(id=agent_id, class_path="tests:agent", **settings), target)


def context_of(session_id: str | None, *, user_id: str = "user", token: str | None = None) -> RuntimeContext:
    tokens = UserTokens(refresh_tokens)
    if token is not None:
        tokens.offer(Tokens(token))
    return RuntimeContext(
        user_id=user_id, session_id=session_id, exchange_id="exchange", agent_id="recorded", tokens=tokens
    )


async def refresh_tokens(refresh_token: str) -> Tokens:
    return Tokens(access_token=f"newer than {refresh_token}", refresh_token=f"{refresh_token}+")


async def exchange_token(access_token: str, audience: str) -> Tokens:
    return Tokens(access_token=f"{access_token} for {audience}")


def agent_services(**models: Any) -> AgentServices:
    """Services with the fast offline model as the default."""
    named = {"default": OfflineChatModel(words_per_second=0), **models}
    return AgentServices(models=ChatModels(named), exchange_token=exchange_token)


def agent_factory(
    *,
    kpi: Kpi | None = None,
    services: AgentServices | None = None,
    cache_size: int = 8,
    build_timeout_s: float = PATIENCE_S,
    close_timeout_s: float = PATIENCE_S,
) -> AgentFactory:
    settings = AgentsSettings(cache_size=cache_size, build_timeout_s=build_timeout_s, close_timeout_s=close_timeout_s)
    return AgentFactory(services or agent_services(), kpi or Kpi(), settings)


async def use(factory: AgentFactory, entry: CatalogAgent, session_id: str | None, **context: Any) -> AgentFlow:
    """Lease the agent and release it at once; return it."""
    async with factory.lease(entry, context_of(session_id, **context)) as warm:
        return warm.flow


async def hold(
    factory: AgentFactory, entry: CatalogAgent, session_id: str | None, until: asyncio.Event, held: list[WarmAgent]
) -> None:
    """Lease the agent until the event is set; add it to `held` when it is built."""
    async with factory.lease(entry, context_of(session_id)) as warm:
        held.append(warm)
        await until.wait()


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until `condition` holds."""
    async with asyncio.timeout(_EVENTUALLY_S):
        while not condition():
            await asyncio.sleep(0.001)


def metric(kpi: Kpi, name: str, **labels: str) -> float:
    """The value of a sample; 0 if it does not exist yet."""
    families = text_string_to_metric_families(kpi.exposition("")[0].decode())
    samples = [sample for family in families for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == name and sample.labels == labels)


def away_for(kpi: Kpi, dependency: str) -> list[Away]:
    """The reasons that the metric has now."""
    reasons: tuple[Away, ...] = get_args(Away)
    return [why for why in reasons if metric(kpi, "chat_dependency_away", dependency=dependency, reason=why)]
