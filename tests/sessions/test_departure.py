"""What open connections are told when the server goes, and how long anything is waited for."""

import asyncio
import time
from contextlib import ExitStack

from support.recorded_agents import eventually

from agentic_backend.sessions.departure import Departure


def nothing() -> None: ...


async def test_connections_are_told_one_after_the_other_within_a_bound() -> None:
    departure = Departure()
    told: list[float] = []
    began = asyncio.get_running_loop().time()
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(departure.tells(lambda: told.append(asyncio.get_running_loop().time() - began)))
        departure.begin(at_most_s=10)
        assert departure.has_begun and told == []
        await eventually(lambda: len(told) == 100)
        assert max(told) - min(told) > 0.1, "500 a second"
        assert departure.open_count == 100
    assert departure.open_count == 0


async def test_nothing_is_spread_beyond_the_bound_and_the_rest_can_be_hurried() -> None:
    departure = Departure()
    with ExitStack() as stack:
        leaving = [stack.enter_context(departure.tells(nothing)) for _ in range(2_000)]
        departure.begin(at_most_s=0.01)
        await eventually(lambda: all(one.is_due for one in leaving))
        slow = Departure()
        slow_ones = [stack.enter_context(slow.tells(nothing)) for _ in range(2_000)]
        slow.begin(at_most_s=3_600)
        await asyncio.sleep(0.05)
        assert not all(one.is_due for one in slow_ones)
        slow.hurry()
        await asyncio.sleep(0.05)
        assert all(one.is_due for one in slow_ones)


async def test_who_comes_when_the_server_goes_is_told_at_once_and_who_has_gone_is_not_told() -> None:
    departure = Departure()
    told: list[str] = []
    with departure.tells(lambda: told.append("gone")):
        departure.begin(at_most_s=0.01)
    with departure.tells(lambda: told.append("came")) as leaving:
        await eventually(lambda: leaving.is_due)
    await asyncio.sleep(0.05)
    assert told == ["came"]


async def test_waiting_ends_when_nothing_is_left_or_nothing_moves() -> None:
    departure, loop = Departure(), asyncio.get_running_loop()
    await departure.wait(lambda: 0, 3_600)
    began, left = loop.time(), list(range(20))

    def one_less() -> int:
        # Each takes most of the patience, and all of them many times as long.
        if left and loop.time() - began > 0.1 * (21 - len(left)):
            left.pop()
        return len(left)

    await departure.wait(one_less, 0.2)
    assert left == [] and departure.steps == 20
    await asyncio.wait_for(departure.wait(lambda: 1, 0.1), 10)


async def test_a_loop_that_gets_no_turns_has_not_waited() -> None:
    """Each turn takes longer than the patience; what needs ten turns still has its time."""
    departure, turns = Departure(), 0

    def left() -> int:
        nonlocal turns
        turns += 1
        busy_until = time.monotonic() + 0.1
        while time.monotonic() < busy_until:
            pass
        return int(turns < 10)

    await departure.wait(left, 0.5)
    assert turns == 10
