"""What open connections are told when the server goes, and how long anything is waited for."""

import asyncio
import time
from contextlib import ExitStack
from functools import partial

import pytest
from support.recorded_agents import eventually

from agentic_backend.relay.drain import Drain, DrainNotice


def nothing() -> None: ...


async def test_connections_are_told_one_after_the_other_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    drain = Drain()
    told: list[int] = []
    delays: list[float] = []
    after = DrainNotice.after

    def noted_after(notice: DrainNotice, delay_s: float) -> None:
        delays.append(delay_s)
        after(notice, delay_s)

    monkeypatch.setattr(DrainNotice, "after", noted_after)
    with ExitStack() as stack:
        for number in range(100):
            stack.enter_context(drain.notice(partial(told.append, number)))
        drain.begin(at_most_s=10)
        assert drain.has_begun and told == []
        await eventually(lambda: len(told) == 100)
        # When they are due: a busy machine may tell them all at once.
        assert max(delays) - min(delays) > 0.1 and max(delays) <= 0.2, "500 a second"
        assert drain.open_count == 100
    assert drain.open_count == 0


async def test_nothing_is_spread_beyond_the_bound_and_the_rest_can_be_hurried() -> None:
    drain = Drain()
    with ExitStack() as stack:
        notices = [stack.enter_context(drain.notice(nothing)) for _ in range(2_000)]
        drain.begin(at_most_s=0.01)
        await eventually(lambda: all(one.is_due for one in notices))
        slow = Drain()
        slow_ones = [stack.enter_context(slow.notice(nothing)) for _ in range(2_000)]
        slow.begin(at_most_s=3_600)
        await asyncio.sleep(0.05)
        assert not all(one.is_due for one in slow_ones)
        slow.hurry()
        await asyncio.sleep(0.05)
        assert all(one.is_due for one in slow_ones)


async def test_who_comes_when_the_server_goes_is_told_at_once_and_who_has_gone_is_not_told() -> None:
    drain = Drain()
    told: list[str] = []
    with drain.notice(lambda: told.append("gone")):
        drain.begin(at_most_s=0.01)
    with drain.notice(lambda: told.append("came")) as notice:
        await eventually(lambda: notice.is_due)
    await asyncio.sleep(0.05)
    assert told == ["came"]


async def test_waiting_ends_when_nothing_is_left_or_nothing_moves() -> None:
    drain, loop = Drain(), asyncio.get_running_loop()
    await drain.wait(lambda: 0, 3_600)
    began, left = loop.time(), list(range(20))

    def one_less() -> int:
        # Each takes most of the patience, and all of them many times as long.
        if left and loop.time() - began > 0.1 * (21 - len(left)):
            left.pop()
        return len(left)

    await drain.wait(one_less, 0.2)
    assert left == [] and drain.turns >= 20
    await asyncio.wait_for(drain.wait(lambda: 1, 0.1), 10)


async def test_what_is_done_for_those_that_are_left_counts_though_none_is_complete() -> None:
    drain, loop = Drain(), asyncio.get_running_loop()
    began = loop.time()

    def steps() -> int:
        # One takes most of the patience; all ten are complete after the tenth.
        return min(int((loop.time() - began) / 0.15), 10)

    await drain.wait(lambda: int(steps() < 10), 0.2, steps)
    assert steps() == 10


async def test_a_loop_that_gets_no_turns_has_not_waited() -> None:
    """Each turn takes longer than the patience; what needs ten turns still has its time."""
    drain, turns = Drain(), 0

    def left() -> int:
        nonlocal turns
        turns += 1
        busy_until = time.monotonic() + 0.1
        while time.monotonic() < busy_until:
            pass
        return int(turns < 10)

    await drain.wait(left, 0.5)
    assert turns == 10
