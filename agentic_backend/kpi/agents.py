"""The cache of agents, and the tools that they call."""

from agentic_backend.kpi.registry import BoundedNames, MetricsRegistry


class AgentMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._tools = BoundedNames()
        self._lookups = metrics.counter("chat_agent_cache", "Agents asked of the cache.", "outcome")
        self._evictions = metrics.counter("chat_agent_evictions", "Agents evicted from the cache.")
        self._cached = metrics.gauge("chat_cached_agents", "Agents that are kept warm or in use.")
        self._problems = metrics.gauge("chat_catalog_problems", "Faults of the agents catalog.", together="max")
        self._tool = metrics.histogram("chat_tool_duration_seconds", "From a tool's call to its result.", "tool")
        self._tool_failures = metrics.counter("chat_tool_failures", "Tools that failed.", "tool")
        self._tool_refusals = metrics.counter("chat_tool_refusals", "Calls that the user may not make.", "tool")

    def looked_up(self, *, hit: bool) -> None:
        """An agent was asked of the cache."""
        self._lookups.labels("hit" if hit else "miss").inc()

    def evicted(self) -> None:
        self._evictions.inc()

    def cached(self, size: int) -> None:
        self._cached.set(size)

    def catalog_problems(self, count: int) -> None:
        """So many faults does the catalog have that is served now; most keep an agent from being served."""
        self._problems.set(count)

    def tool_ended(self, tool: str, duration_s: float, *, ok: bool) -> None:
        tool = self._tools.label(tool)
        self._tool.labels(tool).observe(duration_s)
        if not ok:
            self._tool_failures.labels(tool).inc()

    def tool_refused(self, tool: str) -> None:
        """A tool was called that the run's user has no permission for."""
        self._tool_refusals.labels(self._tools.label(tool)).inc()
