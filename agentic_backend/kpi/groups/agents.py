"""The catalog and the cache of agents, their runs, and the tools that they call."""

from collections.abc import Callable, Mapping
from typing import Literal

from agentic_backend.kpi.registry import GEN_AI_SECONDS, BoundedNames, MetricsRegistry

ToolError = Literal["", "tool_error", "forbidden"]
"""How a tool's call failed, if it did; `forbidden`: the run's user has no permission for it."""

# The buckets that OpenTelemetry's GenAI conventions have for agents.
_AGENT_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)


class AgentMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._tools = BoundedNames()
        self._lookups = metrics.counter("chat_agent_cache", "Agents asked of the cache.", "outcome")
        self._evictions = metrics.counter("chat_agent_evictions", "Agents evicted from the cache.")
        self._cached = metrics.gauge_by("chat_cached_agents", "Agents that are kept warm or in use.", "agent_id")
        self._problems = metrics.gauge("chat_catalog_problems", "Faults of the agents catalog.", together="max")
        self._hash = metrics.gauge(
            "chat_catalog_hash",
            "A hash of what the catalog's file says; the same on instances that agree.",
            together="max",
        )
        self._agent = metrics.histogram(
            "gen_ai_invoke_agent_duration_seconds",
            "Runs of agents.",
            "gen_ai_agent_name",
            "error_type",
            buckets=_AGENT_SECONDS,
        )
        self._tool = metrics.histogram(
            "gen_ai_execute_tool_duration_seconds",
            "From a tool's call to its result.",
            "gen_ai_tool_name",
            "gen_ai_agent_name",
            "error_type",
            buckets=GEN_AI_SECONDS,
        )
        self._tool_failures = metrics.counter("chat_tool_failures", "Tools that failed.", "tool")
        self._tool_refusals = metrics.counter("chat_tool_refusals", "Calls that the user may not make.", "tool")

    def looked_up(self, *, hit: bool) -> None:
        """An agent was asked of the cache."""
        self._lookups.labels("hit" if hit else "miss").inc()

    def evicted(self) -> None:
        self._evictions.inc()

    def cached(self, by_agent: Callable[[], Mapping[str, int]]) -> None:
        """`by_agent` tells at each scrape, in another thread, how many are kept of each agent, by its id."""
        self._cached.read = by_agent

    def catalog(self, problems: Callable[[], int], file_hash: Callable[[], int]) -> None:
        """`problems` tells how many faults the catalog has that is served now; most keep an agent from being served.

        `file_hash` is the same wherever its file says the same.
        """
        self._problems.set_function(problems)
        self._hash.set_function(file_hash)

    def ran(self, agent: str, duration_s: float, error: str) -> None:
        """A run of the agent with this name in the catalog has ended, or waits for a person.

        `error` is the code of its exchange's error, or empty.
        """
        self._agent.labels(agent, error).observe(duration_s)

    def tool_ended(self, tool: str, agent: str, duration_s: float, error: ToolError) -> None:
        """A tool of the agent with this name in the catalog has ended, or its call was refused."""
        tool = self._tools.label(tool)
        self._tool.labels(tool, agent, error).observe(duration_s)
        if error:
            self._tool_failures.labels(tool).inc()
        if error == "forbidden":
            self._tool_refusals.labels(tool).inc()
