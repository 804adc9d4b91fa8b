"""Makes the metrics of one instance, and gives them out in Prometheus' formats."""

import time
from collections.abc import Callable, Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
# A model may call a tool by any name; names beyond this number share one label.
_NAMES_AT_MOST = 100
OTHERS = "other"
BegunAt = Callable[[], Collection[float]]
"""When each of what runs now has begun, in seconds of the monotonic clock. Called at each scrape, in another thread."""


class BoundedNames:
    """Bounds the values of a label whose names come from outside."""

    def __init__(self) -> None:
        # The names that have their own label value.
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._known and len(self._known) < _NAMES_AT_MOST:
            self._known.add(name)
        return name if name in self._known else OTHERS


def age_of_oldest(began_at: BegunAt) -> float:
    """In seconds; 0 if nothing runs."""
    return max((time.monotonic() - at for at in began_at()), default=0.0)


class MetricsRegistry:
    """The metrics of one instance. Each has its name, what it counts, and the names of its labels."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self._registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self._registry)

    def histogram(self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = LONG) -> Histogram:
        return Histogram(name, meaning, labels, buckets=buckets, registry=self._registry)

    def add_process(self) -> None:
        """Those of the process and of Python's garbage collector, under the names that every client library gives."""
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics and their content type: OpenMetrics, with exemplars, if `accept` asks for it."""
        encode: Callable[[CollectorRegistry], bytes]
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
