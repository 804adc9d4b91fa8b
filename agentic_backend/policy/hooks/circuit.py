"""Circuit: keeps calls from a module that fails again and again, and lets one through after a while to see.

A module that is away or takes too long fails for everybody; what the text of one user makes it do is that user's
alone. So `Circuits` has one for all, and one for each user.

Pure: times are seconds of one monotonic clock that the caller reads.
"""

from enum import StrEnum

_FAILURES, _OPEN_S = 5, 30.0
# The circuits of users; beyond this number the one whose failure is the longest ago is closed.
_USERS_AT_MOST = 1_000


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

    def is_open(self, now: float) -> bool:
        """Whether the next call is kept away."""
        return self.state is CircuitState.TRYING or (
            self.state is CircuitState.OPEN and now - self._opened_at < self._open_s
        )

    def admits(self, now: float) -> bool:
        """Whether a call may begin now. Each that may has to end with `succeeded`, `failed` or `let_go`."""
        if self.is_open(now):
            return False
        if self.state is CircuitState.OPEN:
            self.state = CircuitState.TRYING
        return True

    def succeeded(self) -> None:
        if self.state is CircuitState.OPEN:
            # A call that began before it opened.
            return
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


class Circuits:
    """The circuit of a module at one of its points for all, and those of single users.

    Each call that it admits has to end with `succeeded`, `was_away`, `failed` or `let_go`.
    """

    def __init__(self) -> None:
        self._shared = Circuit()
        self._of_users: dict[str, Circuit] = {}
        """By user id; only of those whose last call has failed, the latest at the end."""

    @property
    def state(self) -> CircuitState:
        """Of the circuit for all."""
        return self._shared.state

    def users_kept_away(self, now: float) -> int:
        """For how many users the module is not called, while it is for others."""
        return sum(circuit.is_open(now) for circuit in self._of_users.values())

    def admits(self, user_id: str, now: float) -> bool:
        own = self._of_users.get(user_id)
        if own is not None and own.is_open(now):
            return False
        return self._shared.admits(now) and (own is None or own.admits(now))

    def succeeded(self, user_id: str) -> None:
        self._shared.succeeded()
        self._of_users.pop(user_id, None)

    def was_away(self, user_id: str, now: float) -> None:
        """The module took too long, or something that it depends on is away: this tells nothing of the text."""
        self._shared.failed(now)
        self._let_go_user(user_id)

    def failed(self, user_id: str, now: float) -> None:
        """The module has failed at this user's text: this tells nothing of the texts of others."""
        self._shared.let_go()
        own = self._of_users.pop(user_id, None) or Circuit()
        own.failed(now)
        self._of_users[user_id] = own
        if len(self._of_users) > _USERS_AT_MOST:
            del self._of_users[next(iter(self._of_users))]

    def let_go(self, user_id: str) -> None:
        self._shared.let_go()
        self._let_go_user(user_id)

    def _let_go_user(self, user_id: str) -> None:
        if (own := self._of_users.get(user_id)) is not None:
            own.let_go()
