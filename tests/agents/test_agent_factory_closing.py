"""AgentFactory: how agents are closed, whoever is in the way."""

import asyncio
import contextlib
import logging

import pytest
from support.recorded_agents import Journal, Step, agent_factory, eventually, hold, use

from agentic_backend.agents.agent_factory import WarmAgent


async def test_a_teardown_closes_the_agents_of_its_session_one_after_the_other() -> None:
    journal, factory = Journal(closing=lambda: asyncio.sleep(0.01)), agent_factory()
    entries = [journal.entry(f"agent{number}") for number in range(4)]
    agents = [await use(factory, entry, "s1") for entry in entries]
    other = await use(factory, entries[0], "s2")
    await factory.teardown_session_agents("s1")
    assert journal.closed == agents
    assert journal.most_closing_at_once == 1
    assert await use(factory, entries[0], "s2") is other
    assert await use(factory, entries[0], "s1") not in agents


async def test_a_teardown_of_a_session_without_agents_does_nothing() -> None:
    journal, factory = Journal(), agent_factory()
    await use(factory, journal.entry(), "s1")
    await factory.teardown_session_agents("s2")
    assert not journal.closing_began


async def test_an_agent_in_use_at_its_teardown_is_closed_by_its_last_user() -> None:
    journal, factory = Journal(), agent_factory()
    entry = journal.entry()
    first, last, held = asyncio.Event(), asyncio.Event(), list[WarmAgent]()
    async with asyncio.TaskGroup() as tasks:
        for release in (first, last):
            tasks.create_task(hold(factory, entry, "s1", release, held))
        await eventually(lambda: len(held) == 2)
        await factory.teardown_session_agents("s1")
        first.set()
        await asyncio.sleep(0.01)
        assert not journal.closing_began
        last.set()
    await eventually(lambda: journal.closed)
    assert journal.closed == journal.built == [held[0].flow]
    assert await use(factory, entry, "s1") is not held[0].flow


async def test_an_agent_is_closed_once_though_a_teardown_meets_evictions() -> None:
    journal, factory = Journal(closing=lambda: asyncio.sleep(0.02)), agent_factory(cache_size=3)
    entries = [journal.entry(f"agent{number}") for number in range(3)]
    agents = [await use(factory, entry, "s1") for entry in entries]
    teardown = asyncio.create_task(factory.teardown_session_agents("s1"))
    await eventually(lambda: journal.closing_began)
    for number in range(6):
        await use(factory, entries[0], f"other{number}")
    await teardown
    await eventually(lambda: len(journal.closed) == 6)
    assert set(agents) <= set(journal.closed)
    assert len(set(journal.closing_began)) == len(journal.closing_began)


async def test_a_teardown_goes_on_when_whoever_asked_for_it_has_gone() -> None:
    journal, factory = Journal(closing=lambda: asyncio.sleep(0.01)), agent_factory()
    agents = [await use(factory, journal.entry(f"agent{number}"), "s1") for number in range(3)]
    teardown = asyncio.create_task(factory.teardown_session_agents("s1"))
    await eventually(lambda: journal.closing_began)
    teardown.cancel()
    await eventually(lambda: journal.closed == agents)


async def test_nobody_waits_for_the_closing_of_an_evicted_agent_or_cuts_it() -> None:
    journal, go_on = Journal(), asyncio.Event()

    async def wait() -> None:
        await go_on.wait()

    journal.closing = wait
    factory = agent_factory(cache_size=1)
    entry = journal.entry()
    evicted = await use(factory, entry, "s1")
    user = asyncio.create_task(use(factory, entry, "s2"))
    await asyncio.wait_for(user, 5)
    await eventually(lambda: journal.closing_began)
    assert not journal.closed
    assert await use(factory, entry, "s1") is not evicted, "an agent that closes is not used again"
    go_on.set()
    await eventually(lambda: evicted in journal.closed)


async def test_an_agent_that_cannot_be_closed_keeps_no_other_from_closing(caplog: pytest.LogCaptureFixture) -> None:
    journal, factory = Journal(), agent_factory()

    async def fail_first() -> None:
        if len(journal.closing_began) == 1:
            raise RuntimeError("the secret of the author")

    journal.closing = fail_first
    agents = [await use(factory, journal.entry(f"agent{number}"), "s1") for number in range(3)]
    await factory.teardown_session_agents("s1")
    assert journal.closed == agents[1:]
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert vars(record)["agent_id"] == "agent0"


async def _never() -> None:
    await asyncio.Event().wait()


async def _not_even_cancelled() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.sleep(3600)


@pytest.mark.parametrize("closing", [_never, _not_even_cancelled])
async def test_an_agent_that_does_not_close_in_time_is_left_behind(
    closing: Step, caplog: pytest.LogCaptureFixture
) -> None:
    journal, factory = Journal(), agent_factory(close_timeout_s=0.05)

    async def first_never() -> None:
        if len(journal.closing_began) == 1:
            await closing()

    journal.closing = first_never
    agents = [await use(factory, journal.entry(f"agent{number}"), "s1") for number in range(2)]
    await asyncio.wait_for(factory.teardown_session_agents("s1"), 5)
    assert journal.closed == [agents[1]]
    assert [(record.levelname, vars(record)["agent_id"]) for record in caplog.records] == [("ERROR", "agent0")]


async def test_the_end_closes_every_idle_agent_within_the_time_of_one() -> None:
    journal, factory = Journal(closing=_never), agent_factory(cache_size=40, close_timeout_s=0.25)
    entry = journal.entry()
    for number in range(40):
        await use(factory, entry, f"s{number}")
    await asyncio.wait_for(factory.aclose(), 5)
    assert len(journal.closing_began) == 40


async def test_the_end_waits_for_what_closes_already() -> None:
    journal, factory = Journal(closing=lambda: asyncio.sleep(0.05)), agent_factory(cache_size=1)
    entry = journal.entry()
    evicted, idle = await use(factory, entry, "s1"), await use(factory, entry, "s2")
    await factory.aclose()
    assert set(journal.closed) == {evicted, idle}
    await factory.aclose()
    assert len(journal.closing_began) == 2
