"""Life: every change of phase is one that may follow, the first cancellation counts, waits end when they should."""

import asyncio
from collections.abc import Sequence

import pytest

from agentic_backend.exchange.life import INTERRUPTED, STOPPED, Life, Phase

FOREVER_S = 3600.0
SETTLED = {Phase.WAITING, Phase.ENDED, Phase.LEFT}


def life_in(*phases: Phase) -> Life:
    life = Life()
    for phase in phases:
        life.enter(phase)
    return life


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
        life = life_in(*before)
        if phase in may_follow:
            life.enter(phase)
            assert life.phase is phase
            assert life.settled.is_set() == (phase in SETTLED)
        else:
            with pytest.raises(AssertionError):
                life.enter(phase)


def test_what_is_settled_is_not_left() -> None:
    life = life_in(Phase.ENDING, Phase.ENDED)
    life.leave()
    assert life.phase is Phase.ENDED


def test_the_first_cancellation_counts_and_wakes_up() -> None:
    life = Life()
    life.cancel(STOPPED)
    assert life.wakeup.is_set()
    life.interrupt()
    assert life.cancelled is STOPPED
    assert life.process_goes.is_set()


@pytest.mark.parametrize("before", [[Phase.ENDING], [Phase.ENDING, Phase.ENDED], [Phase.PAUSING, Phase.WAITING]])
def test_what_ends_already_is_not_cancelled(before: Sequence[Phase]) -> None:
    life = life_in(*before)
    life.cancel(STOPPED)
    assert life.cancelled is None and not life.wakeup.is_set()


def test_what_pauses_can_be_cancelled() -> None:
    life = life_in(Phase.PAUSING)
    life.cancel(STOPPED)
    assert life.cancelled is STOPPED and life.is_open


async def test_who_waits_for_the_store_is_woken_up_by_a_cancellation_and_gives_up() -> None:
    life = Life()
    waiting = asyncio.create_task(life.while_not_cancelled(FOREVER_S))
    await asyncio.sleep(0)
    life.cancel(STOPPED)
    assert await waiting, "it is tried once more"
    assert not await life.while_not_cancelled(FOREVER_S)


async def test_while_the_process_goes_there_are_a_few_last_tries() -> None:
    life, tries = Life(), 0
    waiting = asyncio.create_task(life.while_process_stays(FOREVER_S))
    await asyncio.sleep(0)
    life.interrupt()
    assert await waiting
    while await life.while_not_cancelled(FOREVER_S):
        tries += 1
    assert 1 <= tries <= 5
    assert life.cancelled is INTERRUPTED
