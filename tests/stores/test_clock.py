"""Clock: the database's time, carried on by the monotonic clock."""

from datetime import UTC, datetime, timedelta

import pytest

from agentic_backend.stores.mongo.driver import Clock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Machine:
    """A machine whose clocks the test sets; it was started a thousand seconds ago."""

    def __init__(self, wall: datetime = NOON) -> None:
        self.wall = wall
        self.monotonic = 1000.0
        self.clock = Clock(lambda: self.wall, lambda: self.monotonic)

    def hear(self, told: datetime, took_s: float = 0.0) -> float:
        asked_at = self.monotonic
        self.monotonic += took_s
        self.wall += timedelta(seconds=took_s)
        return self.clock.hear(told, asked_at, self.monotonic)


def close_to(at: datetime, s: float = 0.002) -> object:
    return pytest.approx(at.timestamp(), abs=s)


def test_without_a_database_it_is_the_machines() -> None:
    machine = Machine()
    machine.wall -= HOUR
    assert machine.clock.now() == NOON - HOUR


@pytest.mark.parametrize("skew", [HOUR, -HOUR, timedelta(0)])
def test_it_is_the_databases_however_wrong_the_machines_is(skew: timedelta) -> None:
    machine = Machine(NOON + skew)
    assert machine.hear(NOON) == pytest.approx(skew.total_seconds(), abs=0.002)
    machine.monotonic += 60
    machine.wall += timedelta(days=400)
    assert machine.clock.now().timestamp() == close_to(NOON + timedelta(seconds=60))


def test_a_slow_answer_moves_it_no_further_than_it_must() -> None:
    machine = Machine()
    machine.hear(NOON)
    # Told at some moment of ten seconds: the time that is known already may well be right.
    machine.hear(NOON + timedelta(seconds=3), took_s=10)
    assert machine.clock.now().timestamp() == close_to(NOON + timedelta(seconds=10))
    # This one can't be.
    machine.hear(NOON + timedelta(seconds=30), took_s=1)
    assert machine.clock.now().timestamp() == close_to(NOON + timedelta(seconds=30))


def test_it_follows_a_database_whose_clock_is_set_back() -> None:
    machine = Machine()
    machine.hear(NOON)
    assert machine.hear(NOON - HOUR) == pytest.approx(3600, abs=0.002)
    assert machine.clock.now().timestamp() == close_to(NOON - HOUR)
