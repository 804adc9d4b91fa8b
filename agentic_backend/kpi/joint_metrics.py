"""JointMetrics: the metrics of all workers of one server, as those of one process.

Counters and histograms are summed, also over workers that have ended: what they had counted when they were last read
stays, so that no counter goes down when a worker is killed. Gauges are those of the workers that answer, by the rule
that each declares. `process_*` are not summed; they get the label `worker`.
"""

from collections.abc import Collection, Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from agentic_backend.kpi.snapshot import Family, Series, Snapshot, Value

_CREATED = "_created"


class JointMetrics(Collector):
    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._last: dict[int, Snapshot] = {}
        """The last snapshot of each worker's current process, by the worker's number."""
        self._ended: dict[str, Family] = {}
        """The sums of all processes that have ended. Bounded, as their series are."""
        self._up: Collection[int] = ()
        """The workers that have answered now."""
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def take(self, worker: int, snapshot: Snapshot) -> None:
        """`snapshot` is the worker's last one from now on."""
        before = self._last.get(worker)
        if before is not None and before.process != snapshot.process:
            for family in before.families.values():
                if _is_counted(family):
                    _add(self._ended, family)
        self._last[worker] = snapshot

    def exposition(self, up: Collection[int], accept: str) -> tuple[bytes, str]:
        """The metrics and their content type, as `Kpi.exposition`; `up` are the workers that answer."""
        self._up = up
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def describe(self) -> Iterator[Metric]:
        """Nothing: without it the registry would collect at once."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        merged: dict[str, Family] = {}
        for worker, snapshot in sorted(self._last.items()):
            for family in snapshot.families.values():
                if family.is_of_process:
                    if worker in self._up:
                        _add(merged, _labelled(family, worker))
                elif _is_counted(family) or worker in self._up:
                    _add(merged, family)
        for family in self._ended.values():
            _add(merged, family)
        yield from (family.metric() for family in merged.values())
        up = GaugeMetricFamily("chat_worker_up", "1 while a worker answers.", labels=["worker"])
        for worker in range(self._workers):
            up.add_metric([str(worker)], float(worker in self._up))
        yield up


def _is_counted(family: Family) -> bool:
    """Whether what an ended process has counted still counts."""
    return family.type in ("counter", "histogram") and not family.is_of_process


def _add(families: dict[str, Family], more: Family) -> None:
    family = families.setdefault(more.name, Family(more.name, more.type, more.meaning, more.together))
    for series, value in more.series.items():
        there = family.series.get(series)
        family.series[series] = value if there is None else _merged(family, series, there, value)


def _merged(family: Family, series: Series, one: Value, other: Value) -> Value:
    if family.together == "min" or series[0].endswith(_CREATED):
        return Value(min(one.value, other.value))
    if family.together == "max":
        return Value(max(one.value, other.value))
    newest = max((one.exemplar, other.exemplar), key=lambda each: (each.timestamp or 0) if each else -1)
    return Value(one.value + other.value, newest)


def _labelled(family: Family, worker: int) -> Family:
    series = {(name, (("worker", str(worker)), *labels)): value for (name, labels), value in family.series.items()}
    return Family(family.name, family.type, family.meaning, family.together, series)
