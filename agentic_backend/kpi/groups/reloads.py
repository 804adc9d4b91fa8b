"""Reloads of the catalog."""

import time
from typing import Literal

from agentic_backend.kpi.registry import MetricsRegistry


class ReloadMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._reloads = metrics.counter("chat_reloads", "Reloads of the catalog.", "outcome")
        self._loaded_at = metrics.gauge(
            "chat_catalog_loaded_timestamp_seconds",
            "When the catalog that is served was read, in seconds since 1970.",
            together="min",
        )
        self._last_ok = metrics.gauge("chat_last_reload_ok", "0 after a failed reload, else 1.", together="min")
        self._last_ok.set(1)
        for outcome in ("ok", "failed"):
            self._reloads.labels(outcome)
        self.loaded()

    def loaded(self) -> None:
        """The catalog that is served from now on was read now."""
        self._loaded_at.set(time.time())

    def ended(self, outcome: Literal["ok", "failed"]) -> None:
        self._reloads.labels(outcome).inc()
        self._last_ok.set(int(outcome == "ok"))
