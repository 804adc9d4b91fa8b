"""The services that the server needs, and the store's operations."""

from typing import Literal

from agentic_backend.kpi.registry import SHORT, MetricsRegistry
from agentic_backend.system_errors import Away

_REFUSALS: tuple[Away, ...] = ("refused_credentials", "no_permission", "read_only", "full", "refuses_writes")
"""What a call of another kind that succeeds does not disprove: reads go on where a disk is full."""


class DependencyMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._up = metrics.gauge("chat_dependency_up", "1 while a dependency answers.", "dependency", together="min")
        self._away = metrics.gauge(
            "chat_dependency_away", "1 for the reason why a dependency is away.", "dependency", "reason", together="max"
        )
        # By dependency: why each kind of call fails whose last one has failed. The first of them is told.
        self._failing: dict[str, dict[str, Away]] = {}
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

    def store_operation(self, operation: str, kind: str, duration_s: float, why: Away | None) -> None:
        """`kind` is `read` or `write`; `why` is None if the store answered."""
        ok = why is None
        self._store.labels(operation, kind, "ok" if ok else "error").observe(duration_s)
        self._note("store", kind, why)
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

    def keycloak_away(self, call: str, why: Away | None) -> None:
        """Why Keycloak did not serve a call (`keys`, `refresh`, `exchange`); None if it did. One that fails for its
        user's token is served.
        """
        self._up.labels("keycloak").set(int(self._note("keycloak", call, why) is None))

    def broadcast_away(self, why: Away | None) -> None:
        """Why nothing can be told to other instances; None if it can."""
        self._up.labels("broadcast").set(int(self._note("broadcast", "", why) is None))

    def mcp_server_up(self, server_id: str, up: bool) -> None:
        """Whether the last attempt to reach an MCP server of the settings succeeded; if not, another one follows."""
        if not up:
            self.retried("mcp")
        self._up.labels(f"mcp:{server_id}").set(int(up))

    def _note(self, dependency: str, call: str, why: Away | None) -> Away | None:
        """What is known after a call: why the dependency is away; None if it is not.

        A success ends an outage of all calls, but not a refusal of another kind of call: else the two would take turns.
        """
        failing = self._failing.setdefault(dependency, {})
        if why is not None:
            failing[call] = why
        else:
            for key in [key for key, each in failing.items() if key == call or each not in _REFUSALS]:
                del failing[key]
        now, before = next(iter(failing.values()), None), self._away_for.pop(dependency, None)
        if before is not None and before != now:
            self._away.labels(dependency, before).set(0)
        if now is not None:
            self._away_for[dependency] = now
            self._away.labels(dependency, now).set(1)
        return now
