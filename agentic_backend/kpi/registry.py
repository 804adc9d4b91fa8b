"""Makes the metrics of one instance, and gives them out in Prometheus' formats."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
GEN_AI_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The buckets that OpenTelemetry's GenAI conventions have for calls of models and tools."""
# A model may call a tool by any name; names beyond this number share one label.
_NAMES_AT_MOST = 100
OTHERS = "other"
BegunAt = Callable[[], Collection[float]]
"""When each of what runs now has begun, in seconds of the monotonic clock. Called at each scrape, in another thread."""


Together = Literal["sum", "max", "min"]
"""How the gauges of several workers of one server become one. Counters and histograms are always summed."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric as it was declared. `together` is None where it is no gauge."""

    type: str
    labels: tuple[str, ...]
    together: Together | None = None


class BoundedNames:
    """Bounds the values of a label whose names come from outside."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        """The names that have their own label value."""

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
        self.declared: dict[str, Declared] = {}
        """By name; a counter's is without `_total`."""

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.declared[name] = Declared("counter", labels)
        return Counter(name, meaning, labels, registry=self._registry)

    def gauge(self, name: str, meaning: str, *labels: str, together: Together = "sum") -> Gauge:
        self.declared[name] = Declared("gauge", labels, together)
        return Gauge(name, meaning, labels, registry=self._registry)

    def gauge_if_known(self, name: str, meaning: str, read: Callable[[], float | None], together: Together) -> None:
        """A gauge that `read` gives at each scrape; there is none while that gives None."""
        self.declared[name] = Declared("gauge", (), together)
        self._registry.register(_Read(GaugeMetricFamily, name, meaning, read))

    def counter_of(self, name: str, meaning: str, read: Callable[[], float]) -> None:
        """A counter that `read` gives at each scrape, in another thread."""
        self.declared[name] = Declared("counter", ())
        self._registry.register(_Read(CounterMetricFamily, name, meaning, read))

    def gauge_by(self, name: str, meaning: str, label: str) -> "GaugeBy":
        """A gauge whose values are read at each scrape, by label; those of several workers are summed."""
        self.declared[name] = Declared("gauge", (label,), "sum")
        gauge = GaugeBy(name, meaning, label)
        self._registry.register(gauge)
        return gauge

    def histogram(self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = LONG) -> Histogram:
        self.declared[name] = Declared("histogram", labels)
        return Histogram(name, meaning, labels, buckets=buckets, registry=self._registry)

    def add_process(self) -> None:
        """Those of the process and of Python's garbage collector, under the names that every client library gives."""
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def collect(self) -> Iterable[Metric]:
        """All metrics as they are now."""
        return self._registry.collect()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics and their content type: OpenMetrics, with exemplars, if `accept` asks for it."""
        encode: Callable[[CollectorRegistry], bytes]
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class GaugeBy(Collector):
    """`read` is called at each scrape, in another thread. There is always a value for the empty label."""

    def __init__(self, name: str, meaning: str, label: str) -> None:
        self._name = name
        self._meaning = meaning
        self._label = label
        self.read: Callable[[], Mapping[str, float]] = dict

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily(self._name, self._meaning, labels=[self._label])
        for label, value in {"": 0.0, **self.read()}.items():
            gauge.add_metric([label], value)
        yield gauge


class _Read(Collector):
    def __init__(
        self,
        family: type[GaugeMetricFamily | CounterMetricFamily],
        name: str,
        meaning: str,
        read: Callable[[], float | None],
    ) -> None:
        self._family = family
        self._name = name
        self._meaning = meaning
        self._read = read

    def collect(self) -> Iterator[Metric]:
        value = self._read()
        if value is not None:
            yield self._family(self._name, self._meaning, value)
