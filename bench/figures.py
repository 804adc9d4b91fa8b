"""Small statistics."""

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)
