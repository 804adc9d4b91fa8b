"""Census: who lives, as one instance sees it. Pure: it is told what is seen, and when.

No clock of another instance is believed. Whoever lives gives a sign that changes, such as a counter that it moves; one
whose sign stays the same for the length of a lease, by the observer's own monotonic clock, is dead. Only time in which
the observer has looked counts: where it was stopped, or the store away, the others may not have been able to move.
"""

from collections.abc import Callable, Hashable, Mapping


class Census:
    """`longest_gap_s` is how much of the time between two looks counts at most."""

    def __init__(self, lease_s: float, longest_gap_s: float, clock: Callable[[], float]) -> None:
        self._lease_s = lease_s
        self._longest_gap_s = longest_gap_s
        self._clock = clock
        self._looked_at = clock()
        self._seen: dict[str, tuple[Hashable, float]] = {}
        """The sign of each at the last look, and how long it has been the same, in seconds."""

    def look(self, signs: Mapping[str, Hashable]) -> None:
        """These are the signs of all whom there are at this moment."""
        now = self._clock()
        gap_s, self._looked_at = min(now - self._looked_at, self._longest_gap_s), now
        seen: dict[str, tuple[Hashable, float]] = {}
        for key, sign in signs.items():
            former, still_s = self._seen.get(key, (None, 0.0))
            is_known = key in self._seen and former == sign
            seen[key] = (sign, still_s + gap_s if is_known else 0.0)
        self._seen = seen

    def is_dead(self, key: str) -> bool:
        """Whether its sign has been the same for a lease; whom the last look has not seen nobody takes for dead."""
        return key in self._seen and self._seen[key][1] >= self._lease_s
