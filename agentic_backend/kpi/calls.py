"""Calls over any transport that were refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentic_backend.errors import AgenticError, Internal
from agentic_backend.kpi.registry import MetricsRegistry


class CallMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._refused = metrics.counter("chat_refused", "Asks and decisions that were refused.", "call", "code")

    def refused(self, call: str, code: str) -> None:
        """An `ask`, a `decision` or a `resume` was refused, with one of the codes of `errors`."""
        self._refused.labels(call, code).inc()

    @contextmanager
    def refusals(self, call: str) -> Iterator[None]:
        """Count an error of the call inside as its refusal."""
        try:
            yield
        except AgenticError as error:
            self.refused(call, error.code)
            raise
        except Exception:
            self.refused(call, Internal.code)
            raise
