"""The metrics that an application declares, checked."""

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Metric
from agentic_backend.hosting.declarations import first_broken, listed
from agentic_backend.hosting.declared_calls import is_number

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MOST, _MOST_LABELS, _MOST_BUCKETS, _LONGEST = 50, 3, 30, 100


def declared_metrics(metrics: object) -> Sequence[Metric]:
    """The metrics that `Application.metrics` has. Raises ClassPathError, and what reading them raises."""
    found = listed("'metrics' has to be", metrics, Metric, _MOST)
    for metric in found:
        rules = {
            "a name has lower-case letters, digits and '_', and no ending of Prometheus' own": _is_name(metric.name)
            and not metric.name.endswith(("_total", "_count", "_sum", "_bucket", "_created", "_info")),
            "it needs a type: 'counter', 'gauge' or 'histogram'": metric.type in ("counter", "gauge", "histogram"),
            "it needs a meaning, a text of at most 100 characters": type(metric.meaning) is str
            and 0 < len(metric.meaning) <= _LONGEST
            and metric.meaning.isprintable(),
            f"it may have {_MOST_LABELS} labels, each with a name": type(metric.labels) is tuple
            and len({*metric.labels}) == len(metric.labels) <= _MOST_LABELS
            and all(_is_name(label) and label != "le" for label in metric.labels),
            "the buckets have to be numbers that rise": _rise(metric.buckets),
            "'together' has to be 'sum', 'max' or 'min'": metric.together in ("sum", "max", "min"),
            "another metric has this name": [each.name for each in found].count(metric.name) == 1,
        }
        if (rule := first_broken(rules)) is not None:
            raise ClassPathError(f"the metric {metric.name!r}: {rule}")
    return found


def _is_name(name: object) -> bool:
    return type(name) is str and len(name) <= _LONGEST and _NAME.fullmatch(name) is not None


def _rise(buckets: object) -> bool:
    if type(buckets) is not tuple or not 0 < len(buckets) <= _MOST_BUCKETS:
        return False
    if not all(is_number(each) and math.isfinite(each) for each in buckets):
        return False
    return all(float(one) < float(other) for one, other in pairwise(buckets))
