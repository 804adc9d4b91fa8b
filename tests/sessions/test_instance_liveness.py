"""InstanceLiveness: who lives, by signs that change and the observer's own clock."""

from agentic_backend.sessions.upkeep.instance_liveness import InstanceLiveness

LEASE_S, GAP_S = 15.0, 2.0


class Observer:
    """A InstanceLiveness whose clock the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.liveness = InstanceLiveness(LEASE_S, GAP_S, lambda: self.now)

    def look(self, after_s: float, **signs: object) -> list[str]:
        """Who is dead after a look at these signs."""
        self.now += after_s
        self.liveness.look(signs)
        return [key for key in signs if self.liveness.is_dead(key)]


def test_whose_sign_stands_still_for_a_lease_is_dead() -> None:
    observer = Observer()
    dead = [observer.look(1, still=7, moving=second // 5) for second in range(17)]
    assert dead[:15] == [[]] * 15 and dead[15:] == [["still"]] * 2


def test_a_sign_that_changes_is_a_sign_whatever_it_is() -> None:
    """A counter that was begun anew, a deadline that runs backwards."""
    observer = Observer()
    for sign in range(50, 0, -5):
        for _ in range(14):
            assert observer.look(1, one=sign) == []
    assert observer.look(1, one=None) == [] == observer.look(1, one="2001-01-01T00:00:00Z")


def test_a_new_observer_takes_nobody_for_dead_before_a_lease_is_over() -> None:
    observer = Observer()
    assert observer.look(100_000, one=1) == []
    for _ in range(7):
        assert observer.look(GAP_S, one=1) == []
    assert observer.look(GAP_S, one=1) == ["one"]


def test_time_without_a_look_does_not_count() -> None:
    """The store was away, or the observer stopped: the others could not move their signs, or were not seen to."""
    observer = Observer()
    assert observer.look(1, one=1) == []
    assert observer.look(3600, one=1) == []
    for _ in range(6):
        assert observer.look(GAP_S, one=1) == []
    assert observer.look(GAP_S, one=1) == ["one"]


def test_who_was_away_is_new() -> None:
    observer = Observer()
    for _ in range(8):
        observer.look(GAP_S, one=1)
    assert observer.liveness.is_dead("one") is False and observer.look(1, one=1) == ["one"]
    observer.look(1)
    assert not observer.liveness.is_dead("one")
    assert observer.look(1, one=1) == []
