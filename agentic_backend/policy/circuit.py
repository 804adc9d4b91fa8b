"""Circuit: keeps calls from a module that fails again and again, and lets one through after a while to see.

Pure: times are seconds of one monotonic clock that the caller reads.
"""

from enum import StrEnum

_FAILURES, _OPEN_S = 5, 30.0


class CircuitState(StrEnum):
    CLOSED = "closed"
    """All calls go through."""
    OPEN = "open"
    """No call goes through."""
    TRYING = "trying"
    """One call goes through, and decides."""


class Circuit:
    def __init__(self, failures: int = _FAILURES, open_s: float = _OPEN_S) -> None:
        """It opens after so many `failures` one after the other, for `open_s` seconds."""
        self._most = failures
        self._open_s = open_s
        self.state = CircuitState.CLOSED
        self._failures = 0
        """The failures since the last success."""
        self._opened_at = 0.0

    def admits(self, now: float) -> bool:
        """Whether a call may begin now. Each that may has to end with `succeeded`, `failed` or `let_go`."""
        if self.state is CircuitState.OPEN and now - self._opened_at >= self._open_s:
            self.state = CircuitState.TRYING
            return True
        return self.state is CircuitState.CLOSED

    def succeeded(self) -> None:
        self._failures = 0
        self.state = CircuitState.CLOSED

    def failed(self, now: float) -> None:
        self._failures += 1
        if self.state is CircuitState.TRYING or self._failures >= self._most:
            self.state, self._opened_at = CircuitState.OPEN, now

    def let_go(self) -> None:
        """A call has ended without telling anything, because nobody waits for it any more."""
        if self.state is CircuitState.TRYING:
            self.state = CircuitState.OPEN
