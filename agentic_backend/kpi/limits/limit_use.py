"""LimitUse: how much is used of a limit of the system's."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LimitUse:
    """Of memory in bytes, or of threads; what counts against the limit, of all processes that it is for."""

    used: int
    limit: int

    @property
    def ratio(self) -> float:
        return self.used / self.limit


def nearest(uses: Iterable[LimitUse]) -> LimitUse | None:
    """That of the limit that is nearest; None if there is none."""
    return max(uses, key=lambda use: use.ratio, default=None)
