"""RunViews: what an author is shown of their agents and of their own runs: the graphs, and the steps of a run.

Only for those who see details (developer mode, or the role of admins), and of runs only their own: whoever may look
into the runs of others does so elsewhere (see AdminReads).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens, User
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.errors import AgentUnavailable, Forbidden, LimitReached, NotFound
from agentic_backend.exchange.run.recent_run_steps import RecentRunSteps
from agentic_backend.exchange.run.run_steps import RunSteps
from agentic_backend.exchange.run.step_values import without_secrets
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import PromptRecord, TrailQuery

MOST_NODES, MOST_EDGES = 300, 3_000
_DRAW_S = 10.0
_MOST_PROMPTS = 50
_NOT_HERE = (
    "The steps of this run are not kept here: each server process keeps those of its last runs in memory, "
    "for those who ask as a developer or an admin while it has little to do."
)


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """`id` is the path of the node's names, outer graphs first, joined by `:`."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    source: str
    target: str
    label: str | None
    conditional: bool


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    agent_id: str
    name: str
    mermaid: str
    """LangGraph's own drawing."""
    nodes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]


@dataclass(frozen=True, slots=True)
class ShownRun:
    """`values` are what each step got, gave and failed with, without secrets; `prompts` begin with the agent's own."""

    run_steps: RunSteps
    values: Sequence[tuple[Any, Any, str | None]]
    prompts: Sequence[PromptRecord]


class RunViews:
    def __init__(
        self, store: Store, run_steps: RecentRunSteps, factory: AgentFactory, agents: AgentManager, tokens: TokenCache
    ) -> None:
        self._store = store
        self._run_steps = run_steps
        self._factory = factory
        self._agents = agents
        self._tokens = tokens
        content = "Too many runs and graphs are being read; wait until some are answered."
        self._at_once = Bulkhead(per_user=2, in_all=4, wait_s=10.0, content=content)

    async def steps(self, user: User, exchange_id: str) -> ShownRun:
        """The steps of the user's run, as far as they are here.

        Raises Forbidden, ExchangeNotFound, NotFound, and RateLimited.
        """
        check_author(user)
        async with self._at_once.entered(user.id):
            await owned_exchange(self._store, user.id, exchange_id)
            run_steps = steps_of(self._run_steps, exchange_id)
            found = TrailQuery(PromptRecord, {"exchange_id": exchange_id}, limit=_MOST_PROMPTS)
            prompts = (await self._store.trail(found)).records
            secrets = tuple(self._factory.secrets)
            told = [[step.input, step.output, step.error] for step in run_steps.steps]
            # In a thread, because it may be much text.
            values = await asyncio.to_thread(without_secrets, told, secrets)
            prompts.sort(key=lambda one: (one.agent_id != run_steps.agent_id, one.agent_id))
            return ShownRun(run_steps, [(got, gave, error) for got, gave, error in values], prompts)

    async def graphs(self, user: User, agent_id: str, tokens: Tokens | None) -> Sequence[DrawnGraph]:
        """The graph of an agent, then those of its crew. The agent is built for it, as for a query.

        Raises Forbidden, RateLimited, LimitReached if a graph is too large to draw, and the errors of
        `AgentManager.get` and `AgentFactory.lease`.
        """
        check_author(user)
        entry = self._agents.get(agent_id, user)
        user_tokens = self._tokens.of(user.id)
        user_tokens.offer(tokens)
        context = RuntimeContext(
            user_id=user.id,
            session_id=None,
            exchange_id="",
            agent_id=agent_id,
            tokens=user_tokens,
        )
        async with self._at_once.entered(user.id), self._factory.lease(entry, context) as warm:
            try:
                async with asyncio.timeout(_DRAW_S):
                    # In a thread: LangGraph looks for subgraphs in the code of each node.
                    return await asyncio.to_thread(lambda: [_drawn(agent) for agent in warm.agents])
            except TimeoutError:
                raise AgentUnavailable("The agent's graph could not be drawn in time.") from None


def check_author(user: User) -> None:
    """Raise Forbidden unless the user is told how agents are made."""
    if not user.sees_details:
        raise Forbidden("Only developers and admins see the steps of runs and the graphs of agents.")


def steps_of(recent: RecentRunSteps, exchange_id: str) -> RunSteps:
    """Raises NotFound."""
    run_steps = recent.of(exchange_id)
    if run_steps is None:
        raise NotFound(_NOT_HERE)
    return run_steps


def _drawn(agent: AgentFlow) -> DrawnGraph:
    """Raises LimitReached, and AgentUnavailable if LangGraph can't draw the graph."""
    graph = agent.get_compiled_graph()
    assert isinstance(graph, Pregel), "every graph of LangGraph is one"
    try:
        edges = sum(map(_edge_count, [graph, *(inner for _, inner in graph.get_subgraphs(recurse=True))]))
        if edges <= MOST_EDGES:
            drawn = graph.get_graph(xray=True)
            mermaid = drawn.draw_mermaid() if len(drawn.nodes) <= MOST_NODES else ""
    except Exception as error:
        # It looks into an author's code.
        raise AgentUnavailable(f"The graph of '{agent.settings.id}' can't be drawn.") from error
    if edges > MOST_EDGES:
        raise LimitReached(f"The graph has {edges} edges; at most {MOST_EDGES} are drawn.")
    if len(drawn.nodes) > MOST_NODES:
        raise LimitReached(f"The graph has {len(drawn.nodes)} nodes; at most {MOST_NODES} are drawn.")
    return DrawnGraph(
        agent.settings.id,
        agent.settings.name or agent.settings.id,
        mermaid,
        [DrawnNode(str(one.id), str(one.name)) for one in drawn.nodes.values()],
        [
            DrawnEdge(one.source, one.target, str(one.data) if one.data is not None else None, one.conditional)
            for one in drawn.edges
        ],
    )


def _edge_count(graph: object) -> int:
    """The edges of a graph, without those of its subgraphs. The time to draw grows much faster than their number."""
    builder = getattr(graph, "builder", None)
    if not isinstance(builder, StateGraph):
        return 0
    branches = sum(len(one.ends or ()) for named in builder.branches.values() for one in named.values())
    commands = sum(len(node.ends or ()) for node in builder.nodes.values())
    return len(builder.edges) + len(builder.waiting_edges) + branches + commands
