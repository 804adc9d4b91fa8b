"""Every metric's name, labels and buckets; owned by the application, one registry per instance.

Labels are bounded: agent, status, outcome. Never a session, an exchange or a user: those are in the KPI records in the
store, and in the logs.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Kpi:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._exchanges = Counter(
            "chat_exchange", "Exchanges that ended.", ["agent_id", "status"], registry=self._registry
        )
        self._duration = Histogram(
            "chat_exchange_duration_seconds",
            "From the ask to the final.",
            ["agent_id"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._first_token = Histogram(
            "chat_time_to_first_token_seconds",
            "From the ask to the first token.",
            ["agent_id"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._running = Gauge(
            "chat_running_exchanges", "Exchanges that are running or waiting.", registry=self._registry
        )
        self._sockets = Gauge("chat_open_sockets", "WebSockets that are open.", registry=self._registry)
        self._agent_cache = Counter(
            "chat_agent_cache", "Agents asked of the cache.", ["outcome"], registry=self._registry
        )
        self._agent_evictions = Counter(
            "chat_agent_evictions", "Agents evicted from the cache.", registry=self._registry
        )

    def exchange_started(self) -> None:
        self._running.inc()

    def exchange_ended(self, agent_id: str, status: str, duration_s: float, first_token_s: float | None) -> None:
        self._running.dec()
        self._exchanges.labels(agent_id, status).inc()
        self._duration.labels(agent_id).observe(duration_s)
        if first_token_s is not None:
            self._first_token.labels(agent_id).observe(first_token_s)

    def socket_opened(self) -> None:
        self._sockets.inc()

    def socket_closed(self) -> None:
        self._sockets.dec()

    def agent_cache(self, *, hit: bool) -> None:
        self._agent_cache.labels("hit" if hit else "miss").inc()

    def agent_evicted(self) -> None:
        self._agent_evictions.inc()

    def exposition(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self._registry)
