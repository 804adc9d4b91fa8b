"""What instances tell each other, by Redis or as workers: how long it takes, what waits for it, and what got lost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from agentic_backend.kpi.registry import SHORT, MetricsRegistry

Waiting = Literal["exchanges", "messages", "deletions"]
Lost = Literal["message", "deletion", "gap", "unreadable"]


class BroadcastMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._command = metrics.histogram(
            "chat_broadcast_command_seconds", "Round trips to Redis.", "command", "outcome", buckets=SHORT
        )
        self._backlog = metrics.gauge("chat_broadcast_backlog", "What waits to be sent to other instances.", "what")
        self._lost = metrics.counter("chat_broadcast_lost", "What did not reach another instance by itself.", "what")

    @contextmanager
    def command(self, command: Literal["publish", "read", "heartbeat"]) -> Iterator[None]:
        """Measure the round trip inside."""
        began, outcome = time.perf_counter(), "error"
        try:
            yield
            outcome = "ok"
        finally:
            self._command.labels(command, outcome).observe(time.perf_counter() - began)

    def backlog(self, what: Waiting, count: Callable[[], int]) -> None:
        """`count` tells at each scrape, in another thread, how many wait."""
        self._backlog.labels(what).set_function(count)

    def lost(self, what: Lost) -> None:
        """`message`, `deletion`: fell out of a full queue; `gap`: some did not come; `unreadable`: no message."""
        self._lost.labels(what).inc()
