"""The services that the server needs, and the store's operations."""

from typing import Literal

from agentic_backend.kpi.registry import SHORT, MetricsRegistry

Away = Literal[
    "unreachable",
    "no_answer",
    "refused_credentials",
    "no_permission",
    "read_only",
    "full",
    "refuses_writes",
    "failed",
]
"""Why a dependency is away."""


class DependencyMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._up = metrics.gauge("chat_dependency_up", "1 while a dependency answers.", "dependency", together="min")
        self._away = metrics.gauge(
            "chat_dependency_away", "1 for the reason why a dependency is away.", "dependency", "reason", together="max"
        )
        self._away_for: dict[str, Away] = {}
        self._store = metrics.histogram(
            "chat_store_operation_seconds", "Operations of the store.", "operation", "kind", "outcome", buckets=SHORT
        )
        self._writable = metrics.gauge(
            "chat_store_writable", "1 while the store takes writes, 0 if its last write failed.", together="min"
        )
        self._retries = metrics.counter("chat_retries", "Calls that are tried again.", "dependency")
        self._damaged = metrics.gauge(
            "chat_store_damaged", "1 where pages of the SQLite file are damaged.", together="max"
        )
        self._skew = metrics.gauge(
            "chat_clock_skew_seconds", "How far the clock is ahead of the database's.", together="max"
        )
        self._upgrades = metrics.gauge(
            "chat_store_upgrades_left", "Migrations and indexes that the database lacks.", together="max"
        )

    def store_operation(self, operation: str, kind: str, duration_s: float, ok: bool) -> None:
        """`kind` is `read` or `write`."""
        self._store.labels(operation, kind, "ok" if ok else "error").observe(duration_s)
        self._up.labels("store").set(int(ok))
        if kind == "write":
            # Reads succeed where a disk is full.
            self._writable.set(int(ok))

    def retried(self, dependency: Literal["model", "store", "mcp"]) -> None:
        """A call has failed and is tried again."""
        self._retries.labels(dependency).inc()

    def store_retried(self) -> None:
        self.retried("store")

    def store_damaged(self, damaged: bool) -> None:
        """The result of the last check of the SQLite file's pages."""
        self._damaged.set(int(damaged))

    def upgrades_left(self, count: int) -> None:
        """The number of migrations and indexes that the database lacks at the last look."""
        self._upgrades.set(count)

    def clock_skew(self, ahead_s: float) -> None:
        self._skew.set(ahead_s)

    def keycloak_up(self, up: bool) -> None:
        """Whether the last fetch of the realm's keys succeeded."""
        self._up.labels("keycloak").set(int(up))

    def broadcast_away(self, why: Away | None) -> None:
        """Why nothing can be told to other instances; None if it can."""
        self._is_away("broadcast", why)

    def mcp_server_up(self, server_id: str, up: bool) -> None:
        """Whether the last attempt to reach an MCP server of the settings succeeded; if not, another one follows."""
        if not up:
            self.retried("mcp")
        self._up.labels(f"mcp:{server_id}").set(int(up))

    def _is_away(self, dependency: str, why: Away | None) -> None:
        self._up.labels(dependency).set(int(why is None))
        before = self._away_for.pop(dependency, None)
        if before is not None and before != why:
            self._away.labels(dependency, before).set(0)
        if why is not None:
            self._away_for[dependency] = why
            self._away.labels(dependency, why).set(1)
