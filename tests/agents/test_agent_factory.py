"""AgentFactory: who gets which instance, how often one is built, and which may leave the cache."""

import asyncio
import itertools
import sys
from dataclasses import replace
from types import FrameType

import pytest
from support.recorded_agents import (
    Journal,
    agent_factory,
    context_of,
    entry_of,
    eventually,
    hold,
    metric,
    use,
)

from agentic_backend.agents.agent_factory import AgentFactory, WarmAgent
from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.errors import AgentUnavailable, Forbidden
from agentic_backend.kpi import Kpi


async def test_an_agent_is_kept_warm_for_its_session_and_its_entry() -> None:
    journal, factory = Journal(), agent_factory()
    entry, other = journal.entry("one"), journal.entry("other")
    places = [("s1", entry), ("s1", other), ("s2", entry)]
    first = [await use(factory, entry, session_id) for session_id, entry in places]
    assert len({id(agent) for agent in first}) == 3
    again = [await use(factory, entry, session_id) for session_id, entry in places]
    assert [id(agent) for agent in again] == [id(agent) for agent in first]
    assert journal.built == first
    assert not journal.closing_began


async def test_what_is_remembered_beside_an_agent_stays_with_it() -> None:
    journal, factory = Journal(), agent_factory()
    entry = journal.entry()
    async with factory.lease(entry, context_of("s1")) as warm:
        warm.memory = "what was said"
    async with factory.lease(entry, context_of("s2")) as warm:
        assert warm.memory is None
    async with factory.lease(entry, context_of("s1")) as warm:
        assert warm.memory == "what was said"


async def test_the_least_recently_used_agent_is_evicted_and_closed() -> None:
    journal, kpi = Journal(), Kpi()
    factory, entry = agent_factory(cache_size=2, kpi=kpi), journal.entry()
    first, second = await use(factory, entry, "s1"), await use(factory, entry, "s2")
    assert await use(factory, entry, "s1") is first
    await use(factory, entry, "s3")
    await eventually(lambda: journal.closed)
    assert journal.closed == [second]
    assert await use(factory, entry, "s1") is first
    assert await use(factory, entry, "s2") is not second
    assert metric(kpi, "chat_agent_evictions_total") == 2


async def test_never_more_idle_agents_than_the_cache_holds() -> None:
    journal, factory = Journal(), agent_factory(cache_size=3)
    entry = journal.entry()
    for number in range(40):
        await use(factory, entry, f"s{number % 13}")
    await eventually(lambda: len(journal.built) - len(journal.closed) == 3)
    assert len(set(journal.closed)) == len(journal.closed), "no agent is closed twice"


async def test_an_agent_in_use_is_never_evicted() -> None:
    journal, factory = Journal(), agent_factory(cache_size=1)
    entry = journal.entry()
    release, held = asyncio.Event(), list[WarmAgent]()
    async with asyncio.TaskGroup() as tasks:
        for number in range(6):
            tasks.create_task(hold(factory, entry, f"held{number}", release, held))
        await eventually(lambda: len(held) == 6)
        for number in range(20):
            await use(factory, entry, f"passing{number}")
        await eventually(lambda: len(journal.closed) == 19)
        in_use = {warm.flow for warm in held}
        assert not in_use & set(journal.closing_began)
        release.set()
    await eventually(lambda: len(journal.built) - len(journal.closed) == 1)
    assert len(set(journal.closing_began)) == len(journal.closing_began) == 25


async def test_an_agent_that_was_idle_before_is_not_evicted_while_it_is_used_again() -> None:
    journal, factory = Journal(), agent_factory(cache_size=2)
    entry = journal.entry()
    agent = await use(factory, entry, "s1")
    async with factory.lease(entry, context_of("s1")) as warm:
        assert warm.flow is agent
        for number in range(5):
            await use(factory, entry, f"passing{number}")
        await eventually(lambda: len(journal.closed) == 3)
        assert agent not in journal.closing_began
    assert await use(factory, entry, "s1") is agent


async def test_agents_are_counted_though_others_come_meanwhile() -> None:
    journal, kpi, loop = Journal(), Kpi(), asyncio.get_running_loop()
    factory, entry = agent_factory(kpi=kpi), journal.entry("one")
    await use(factory, entry, "s")
    sessions = map(str, itertools.count())

    def one_comes(frame: FrameType, event: str, arg: object) -> None:
        """At each step of Python code at which the thread may have to wait for others."""
        if event == "call" and frame.f_back and frame.f_back.f_globals["__name__"] == AgentFactory.__module__:
            asyncio.run_coroutine_threadsafe(use(factory, entry, next(sessions)), loop).result()

    def scraped() -> float:
        sys.setprofile(one_comes)
        try:
            return metric(kpi, "chat_cached_agents", agent_id="one")
        finally:
            sys.setprofile(None)

    assert await asyncio.to_thread(scraped) >= 1


async def test_twenty_leases_at_once_build_one_agent() -> None:
    journal, factory = Journal(building=lambda: asyncio.sleep(0.05)), agent_factory()
    entry = journal.entry()
    agents = await asyncio.gather(*(use(factory, entry, "s1") for _ in range(20)))
    assert len(journal.built) == 1
    assert set(agents) == set(journal.built)


async def test_agents_of_different_sessions_are_built_at_the_same_time() -> None:
    journal, factory = Journal(), agent_factory()
    all_building = asyncio.Barrier(5)

    async def wait_for_the_others() -> None:
        await all_building.wait()

    journal.building = wait_for_the_others
    entry = journal.entry()
    await asyncio.gather(*(use(factory, entry, f"s{number}") for number in range(5)))
    assert len(journal.built) == 5


async def test_a_build_that_fails_lets_the_next_one_try() -> None:
    journal, factory = Journal(), agent_factory()
    entry = journal.entry()

    async def fail_first() -> None:
        await asyncio.sleep(0.01)
        if len(journal.built) == 1:
            raise RuntimeError("the secret of the author")

    journal.building = fail_first
    outcomes = await asyncio.gather(*(use(factory, entry, "s1") for _ in range(20)), return_exceptions=True)
    failures = [outcome for outcome in outcomes if not isinstance(outcome, AgentFlow)]
    assert [type(failure) for failure in failures] == [AgentUnavailable]
    assert "secret" not in str(failures)
    assert len(journal.built) == 2
    await eventually(lambda: journal.closed)
    assert journal.closed == [journal.built[0]], "what was opened before the failure is closed"
    assert await use(factory, entry, "s1") is journal.built[1]


async def test_a_builder_that_is_cancelled_does_not_break_the_others() -> None:
    journal, factory = Journal(), agent_factory()
    entry, go_on = journal.entry(), asyncio.Event()

    async def wait() -> None:
        await go_on.wait()

    journal.building = wait
    builder = asyncio.create_task(use(factory, entry, "s1"))
    await eventually(lambda: journal.built)
    others = [asyncio.create_task(use(factory, entry, "s1")) for _ in range(5)]
    await asyncio.sleep(0)
    builder.cancel()
    await asyncio.wait({builder})
    assert builder.cancelled()
    go_on.set()
    assert set(await asyncio.gather(*others)) == {journal.built[1]}
    await eventually(lambda: journal.closed)
    assert journal.closed == [journal.built[0]]


async def test_a_build_takes_no_longer_than_it_may() -> None:
    journal, factory = Journal(building=lambda: asyncio.sleep(3600)), agent_factory(build_timeout_s=0.05)
    with pytest.raises(AgentUnavailable):
        await use(factory, journal.entry(), "s1")
    await eventually(lambda: journal.closed == journal.built)


async def test_a_typed_error_of_an_agent_stays_what_it_is() -> None:
    async def refuse() -> None:
        raise Forbidden("Not for you.")

    journal, factory = Journal(building=refuse), agent_factory()
    with pytest.raises(Forbidden, match="Not for you"):
        await use(factory, journal.entry(), "s1")


async def test_an_agent_whose_constructor_fails_is_unavailable() -> None:
    class Strange(Journal().agent_class()):  # type: ignore[misc]
        def __init__(self) -> None:
            raise AssertionError("never reached: it takes no arguments")

    with pytest.raises(AgentUnavailable):
        await use(agent_factory(), entry_of(Strange), "s1")


async def test_a_query_gets_an_agent_of_its_own_which_is_closed_after() -> None:
    journal, kpi = Journal(), Kpi()
    factory, entry = agent_factory(kpi=kpi), journal.entry()
    kept = await use(factory, entry, "s1")
    release, held = asyncio.Event(), list[WarmAgent]()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(hold(factory, entry, None, release, held))
        await eventually(lambda: len(held) == 3)
        agents = {warm.flow for warm in held}
        assert len(agents) == 3 and kept not in agents
        assert not journal.closing_began
        release.set()
    await eventually(lambda: set(journal.closed) == agents)
    assert await use(factory, entry, "s1") is kept
    assert metric(kpi, "chat_agent_cache_total", outcome="miss") == 1, "a query asks nothing of the cache"


async def test_a_query_whose_agent_fails_leaves_nothing_open() -> None:
    async def fail() -> None:
        raise RuntimeError

    journal, factory = Journal(building=fail), agent_factory()
    with pytest.raises(AgentUnavailable):
        await use(factory, journal.entry(), None)
    await eventually(lambda: journal.closed == journal.built)
    assert len(journal.closed) == 1


async def test_an_agent_whose_settings_have_changed_is_built_anew_and_keeps_what_it_remembers() -> None:
    journal, factory = Journal(), agent_factory()
    entry = journal.entry()
    changed = replace(entry, settings=entry.settings.model_copy(update={"model": "other"}))
    async with factory.lease(entry, context_of("s1")) as warm:
        warm.memory = "what was said"
        first = warm.flow
    async with factory.lease(changed, context_of("s1")) as warm:
        second = warm.flow
        assert second is not first and second.settings.model == "other"
        assert warm.memory == "what was said"
    await eventually(lambda: journal.closed)
    assert journal.closed == [first]
    assert await use(factory, replace(changed), "s1") is second


async def test_a_changed_agent_is_not_taken_from_one_that_is_in_use() -> None:
    journal, factory = Journal(), agent_factory()
    entry = journal.entry()
    changed = replace(entry, settings=entry.settings.model_copy(update={"model": "other"}))
    async with factory.lease(entry, context_of("s1")) as old:
        async with factory.lease(changed, context_of("s1")) as new:
            assert new.flow is not old.flow
        assert not journal.closing_began
    await eventually(lambda: journal.closed)
    assert journal.closed == [old.agents[0]]
    assert await use(factory, changed, "s1") is new.agents[0]
