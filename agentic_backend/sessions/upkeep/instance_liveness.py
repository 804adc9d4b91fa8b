"""InstanceLiveness: tells living instances from dead ones, as one instance observes them.

Pure: signs and clock are passed in.
It trusts no clock of another instance. A living instance keeps changing its sign, such as a counter. An instance whose
sign stays the same for a lease, by the observer's own monotonic clock, is dead. Only time in which the observer looked
counts: while it was suspended, or the store was unavailable, the others may have been unable to change their signs.
"""

from collections.abc import Callable, Hashable, Mapping


class InstanceLiveness:
    """`longest_gap_s` limits how much of the time between two looks counts, in seconds."""

    def __init__(self, lease_s: float, longest_gap_s: float, clock: Callable[[], float]) -> None:
        self._lease_s = lease_s
        self._longest_gap_s = longest_gap_s
        self._clock = clock
        self._looked_at = clock()
        self._seen: dict[str, tuple[Hashable, float]] = {}
        """The sign of each instance at the last look, and for how many seconds it has been the same."""

    def look(self, signs: Mapping[str, Hashable]) -> None:
        """Record the current signs of all instances."""
        now = self._clock()
        gap_s, self._looked_at = min(now - self._looked_at, self._longest_gap_s), now
        seen: dict[str, tuple[Hashable, float]] = {}
        for key, sign in signs.items():
            former, still_s = self._seen.get(key, (None, 0.0))
            is_known = key in self._seen and former == sign
            seen[key] = (sign, still_s + gap_s if is_known else 0.0)
        self._seen = seen

    def is_dead(self, key: str) -> bool:
        """Whether its sign has been the same for a lease; False if it was missing at the last look."""
        return key in self._seen and self._seen[key][1] >= self._lease_s
