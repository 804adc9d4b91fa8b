"""Calls of the chat's modules."""

from agentic_backend.kpi.registry import SHORT, MetricsRegistry


class ModuleMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._duration = metrics.histogram(
            "chat_module_duration_seconds", "Calls of modules.", "module", "point", buckets=SHORT
        )
        self._failures = metrics.counter("chat_module_failures", "Calls of modules that failed.", "module", "point")
        self._blocks = metrics.counter("chat_module_blocks", "Texts that modules blocked.", "module", "point")
        self._circuit = metrics.gauge(
            "chat_module_circuit_open", "1 while a module is not called.", "module", together="max"
        )
        self._missed = metrics.counter("chat_module_missed", "Events that no module was told of.", "point")

    def called(self, module: str, point: str, duration_s: float) -> None:
        self._duration.labels(module, point).observe(duration_s)

    def failed(self, module: str, point: str) -> None:
        self._failures.labels(module, point).inc()

    def blocked(self, module: str, point: str) -> None:
        """A module has blocked a text."""
        self._blocks.labels(module, point).inc()

    def circuit(self, module: str, *, is_open: bool) -> None:
        self._circuit.labels(module).set(int(is_open))

    def missed(self, point: str) -> None:
        """Too many calls of modules ran beside the exchanges."""
        self._missed.labels(point).inc()
