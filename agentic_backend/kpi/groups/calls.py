"""REST calls and their outcomes, and the calls over any transport that were refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentic_backend.errors import AgenticError, Internal, whose_fault
from agentic_backend.kpi.registry import OTHERS, SHORT, MetricsRegistry

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class CallMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._answered = metrics.histogram(
            "chat_http_request_seconds",
            "From an HTTP request to the head of its answer.",
            "route",
            "method",
            "status",
            buckets=SHORT,
        )
        self._refused = metrics.counter(
            "chat_refused", "Asks and decisions that were refused.", "call", "code", "whose"
        )

    def answered(self, route: str, method: str, status: int, duration_s: float) -> None:
        """An HTTP request was answered. `route` is a template of a path, or what kind of thing was asked for."""
        method = method if method in _METHODS else OTHERS
        self._answered.labels(route, method, str(status)).observe(duration_s)

    def refused(self, call: str, code: str) -> None:
        """An `ask`, a `decision` or a `resume` was refused, with one of the codes of `errors`."""
        self._refused.labels(call, code, whose_fault(code)).inc()

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
