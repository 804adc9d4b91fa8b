"""Snapshot: the metrics of one process at one time, in a form that another process can merge with others' and expose.

Unlike Prometheus' formats it also says how gauges are merged, which is declared with each gauge.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from prometheus_client import Metric
from prometheus_client.samples import Exemplar, Sample

from agentic_backend.kpi.registry import Declared, Together

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A sample's name and labels."""


@dataclass(slots=True)
class Value:
    value: float
    exemplar: Exemplar | None = None


@dataclass(slots=True)
class Family:
    """A metric with all its series. `together` is None where it is no gauge."""

    name: str
    type: str
    meaning: str
    together: Together | None
    series: dict[Series, Value] = field(default_factory=dict)

    @property
    def is_of_process(self) -> bool:
        """Whether it tells of the process itself, so that its sum over several would mean nothing."""
        return self.name.startswith("process_")

    def metric(self) -> Metric:
        """As Prometheus' client has it."""
        metric = Metric(self.name, self.meaning, self.type)
        for (name, labels), value in self.series.items():
            metric.samples.append(Sample(name, dict(labels), value.value, None, value.exemplar))
        return metric


@dataclass(slots=True)
class Snapshot:
    """`process` is another one for each process, however often its number is used again."""

    process: str
    families: dict[str, Family]

    @classmethod
    def of(cls, process: str, metrics: Iterable[Metric], declared: Mapping[str, Declared]) -> Self:
        families = {}
        for metric in metrics:
            known = declared.get(metric.name)
            family = Family(metric.name, metric.type, metric.documentation, known.together if known else None)
            for sample in metric.samples:
                family.series[sample.name, tuple(sample.labels.items())] = Value(sample.value, sample.exemplar)
            families[metric.name] = family
        return cls(process, families)

    def encode(self) -> bytes:
        families = [
            [each.name, each.type, each.meaning, each.together, [_packed(*one) for one in each.series.items()]]
            for each in self.families.values()
        ]
        return orjson.dumps({"process": self.process, "families": families})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ValueError, KeyError or TypeError if `data` is none."""
        told = orjson.loads(data)
        families = {}
        for name, kind, meaning, together, series in told["families"]:
            families[name] = Family(name, kind, meaning, together, dict(map(_unpacked, series)))
        return cls(told["process"], families)


def _packed(series: Series, value: Value) -> list[Any]:
    name, labels = series
    exemplar = value.exemplar
    told = None if exemplar is None else [exemplar.labels, exemplar.value, exemplar.timestamp]
    return [name, labels, value.value, told]


def _unpacked(packed: list[Any]) -> tuple[Series, Value]:
    name, labels, value, told = packed
    exemplar = None if told is None else Exemplar(*told)
    return (name, tuple((key, text) for key, text in labels)), Value(value, exemplar)
