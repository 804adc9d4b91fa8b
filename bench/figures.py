"""Small statistics."""

from collections.abc import Mapping, Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def medians(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each figure, by its name."""
    return {name: median([one[name] for one in measured]) for name in measured[0]}
