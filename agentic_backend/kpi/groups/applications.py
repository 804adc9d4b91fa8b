"""Applications, and their calls."""

from agentic_backend.kpi.registry import MetricsRegistry


class ApplicationMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._up = metrics.gauge("chat_application_up", "1 while an application serves.", "application", together="min")
        self._failures = metrics.counter(
            "chat_application_failures", "Calls of applications that failed.", "application"
        )

    def up(self, application: str, *, is_up: bool) -> None:
        self._up.labels(application).set(int(is_up))
        # A rate needs a first value.
        self._failures.labels(application)

    def failed(self, application: str) -> None:
        self._failures.labels(application).inc()
