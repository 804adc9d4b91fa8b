"""Lifecycle: every change of phase is one that may follow, the first cancellation counts, waits end in time."""

import asyncio
from collections.abc import Sequence

import pytest

from agentic_backend.exchange.lifecycle import INTERRUPTED, STOPPED, Lifecycle, Phase

FOREVER_S = 3600.0
SETTLED = {Phase.WAITING, Phase.ENDED, Phase.LEFT}


def lifecycle_in(*phases: Phase) -> Lifecycle:
    lifecycle = Lifecycle()
    for phase in phases:
        lifecycle.enter(phase)
    return lifecycle


@pytest.mark.parametrize(
    ("before", "may_follow"),
    [
        ([], {Phase.PAUSING, Phase.ENDING, Phase.LEFT}),
        ([Phase.PAUSING], {Phase.WAITING, Phase.ENDING, Phase.LEFT}),
        ([Phase.ENDING], {Phase.ENDED, Phase.LEFT}),
        ([Phase.PAUSING, Phase.WAITING], set()),
        ([Phase.ENDING, Phase.ENDED], set()),
        ([Phase.LEFT], set()),
    ],
)
def test_only_some_phases_may_follow(before: Sequence[Phase], may_follow: set[Phase]) -> None:
    for phase in Phase:
        lifecycle = lifecycle_in(*before)
        if phase in may_follow:
            lifecycle.enter(phase)
            assert lifecycle.phase is phase
            assert lifecycle.settled.is_set() == (phase in SETTLED)
        else:
            with pytest.raises(AssertionError):
                lifecycle.enter(phase)


def test_what_is_settled_is_not_left() -> None:
    lifecycle = lifecycle_in(Phase.ENDING, Phase.ENDED)
    lifecycle.leave()
    assert lifecycle.phase is Phase.ENDED


def test_the_first_cancellation_counts_and_wakes_up() -> None:
    lifecycle = Lifecycle()
    lifecycle.cancel(STOPPED)
    assert lifecycle.wakeup.is_set()
    lifecycle.interrupt()
    assert lifecycle.cancelled is STOPPED
    assert lifecycle.process_goes.is_set()


@pytest.mark.parametrize("before", [[Phase.ENDING], [Phase.ENDING, Phase.ENDED], [Phase.PAUSING, Phase.WAITING]])
def test_what_ends_already_is_not_cancelled(before: Sequence[Phase]) -> None:
    lifecycle = lifecycle_in(*before)
    lifecycle.cancel(STOPPED)
    assert lifecycle.cancelled is None and not lifecycle.wakeup.is_set()


def test_what_pauses_can_be_cancelled() -> None:
    lifecycle = lifecycle_in(Phase.PAUSING)
    lifecycle.cancel(STOPPED)
    assert lifecycle.cancelled is STOPPED and lifecycle.is_open


async def test_who_waits_for_the_store_is_woken_up_by_a_cancellation_and_gives_up() -> None:
    lifecycle = Lifecycle()
    waiting = asyncio.create_task(lifecycle.while_not_cancelled(FOREVER_S))
    await asyncio.sleep(0)
    lifecycle.cancel(STOPPED)
    assert await waiting, "it is tried once more"
    assert not await lifecycle.while_not_cancelled(FOREVER_S)


async def test_while_the_process_goes_there_are_a_few_last_tries() -> None:
    lifecycle, tries = Lifecycle(), 0
    waiting = asyncio.create_task(lifecycle.while_process_stays(FOREVER_S))
    await asyncio.sleep(0)
    lifecycle.interrupt()
    assert await waiting
    while await lifecycle.while_not_cancelled(FOREVER_S):
        tries += 1
    assert 1 <= tries <= 5
    assert lifecycle.cancelled is INTERRUPTED
