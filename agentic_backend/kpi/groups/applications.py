"""Applications, their calls, and the metrics that they declare."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from agentic_backend.kpi.groups.worker_processes import WorkerMetrics
from agentic_backend.kpi.registry import OTHERS, MetricsRegistry, Together

_SERIES_AT_MOST = 100
"""Of one metric of an application; what comes later shares one, whose labels are all OTHERS."""
_LONGEST_LABEL = 100

Measure = Callable[[float, Mapping[str, str]], None]
"""Adds to a counter, sets a gauge, or observes a histogram's value, with the values of its labels."""


class ApplicationMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._metrics = metrics
        self._up = metrics.gauge("chat_application_up", "1 while an application serves.", "application", together="min")
        self._failures = metrics.counter(
            "chat_application_failures", "Calls of applications that failed.", "application"
        )
        self.workers = WorkerMetrics(metrics)

    def up(self, application: str, *, is_up: bool) -> None:
        self._up.labels(application).set(int(is_up))
        # A rate needs a first value.
        self._failures.labels(application)

    def failed(self, application: str) -> None:
        self._failures.labels(application).inc()

    def declare(
        self,
        application: str,
        name: str,
        type_: Literal["counter", "gauge", "histogram"],
        meaning: str,
        labels: tuple[str, ...],
        buckets: tuple[float, ...],
        together: Together,
    ) -> Measure:
        """Have a metric of an application's."""
        # Two underscores, so that no other application's id with another name makes the same.
        full = f"chat_app_{application.replace('-', '_')}__{name}"
        match type_:
            case "counter":
                counter = self._metrics.counter(full, meaning, *labels)
                return _bounded(labels, lambda value, own: _of(counter, own).inc(value))
            case "gauge":
                gauge = self._metrics.gauge(full, meaning, *labels, together=together)
                return _bounded(labels, lambda value, own: _of(gauge, own).set(value))
            case "histogram":
                histogram = self._metrics.histogram(full, meaning, *labels, buckets=buckets)
                return _bounded(labels, lambda value, own: _of(histogram, own).observe(value))


def _of(metric: Any, labels: tuple[str, ...]) -> Any:
    """The series of the metric with these labels; one without labels is its own series."""
    return metric.labels(*labels) if labels else metric


def _bounded(names: tuple[str, ...], measure: Callable[[float, tuple[str, ...]], None]) -> Measure:
    known: set[tuple[str, ...]] = set()

    def bounded(value: float, labels: Mapping[str, str]) -> None:
        # What is no valid Unicode can't be told to Prometheus.
        own = tuple(labels[name][:_LONGEST_LABEL].encode(errors="replace").decode() for name in names)
        if own not in known:
            if len(known) < _SERIES_AT_MOST:
                known.add(own)
            else:
                own = (OTHERS,) * len(names)
        measure(value, own)

    return bounded
