"""AgentFactory: leaders, who are built behind their crew and closed before it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.recorded_agents import (
    Journal,
    agent_factory,
    context_of,
    echoing_graph,
    entry_of,
    eventually,
    metric,
    use,
)

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph, GraphFlow
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.errors import AgentUnavailable
from agentic_backend.kpi import Kpi


def leader_class(journal: Journal) -> type[LeaderFlow]:
    class Leader(LeaderFlow):
        async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
            journal.built.append(self)
            await journal.building()
            self.crew = dict(crew)

        def get_compiled_graph(self) -> CompiledGraph:
            return echoing_graph()

        async def aclose(self) -> None:
            journal.closing_now += 1
            journal.most_closing_at_once = max(journal.most_closing_at_once, journal.closing_now)
            await journal.closing()
            journal.closing_now -= 1
            journal.closed.append(self)

    return Leader


def led(journal: Journal, *crew: CatalogAgent) -> CatalogAgent:
    """A leader of this crew."""
    return replace(entry_of(leader_class(journal), "leader", type="leader"), crew=crew)


def ids(agents: list[AgentFlow]) -> list[str]:
    return [agent.settings.id for agent in agents]


async def test_the_crew_is_built_once_before_its_leader_who_is_given_it() -> None:
    journal, factory = Journal(), agent_factory()
    entry = led(journal, journal.entry("scout"), journal.entry("writer"))
    leader = await use(factory, entry, "s1")
    assert ids(journal.built) == ["scout", "writer", "leader"]
    assert isinstance(leader, LeaderFlow)
    assert leader.crew == {"scout": journal.built[0], "writer": journal.built[1]}  # type: ignore[attr-defined]
    assert await use(factory, entry, "s1") is leader
    assert len(journal.built) == 3
    await factory.aclose()


async def test_a_crew_is_its_leaders_alone() -> None:
    journal, factory = Journal(), agent_factory()
    scout = journal.entry("scout")
    await use(factory, led(journal, scout), "s1")
    alone = await use(factory, scout, "s1")
    await use(factory, led(journal, scout), "s2")
    assert ids(journal.built) == ["scout", "leader", "scout", "scout", "leader"]
    assert alone is journal.built[2]
    await factory.aclose()


async def test_a_crew_may_hold_graphs_and_functions() -> None:
    journal, factory = Journal(), agent_factory()
    entry = led(journal, entry_of(echoing_graph(), "graph"), entry_of(echoing_graph, "function"))
    leader = await use(factory, entry, "s1")
    assert all(isinstance(expert, GraphFlow) for expert in leader.crew.values())  # type: ignore[attr-defined]
    await factory.aclose()


async def test_each_use_gives_leader_and_crew_its_context() -> None:
    journal, factory = Journal(), agent_factory()
    entry = led(journal, journal.entry("scout"))
    for token in ("old", "new"):
        context = context_of("s1", token=token)
        async with factory.lease(entry, context) as warm:
            assert [agent.runtime_context for agent in warm.agents] == [context, context]
            assert warm.agents[0] is warm.flow
    await factory.aclose()


async def test_a_teardown_closes_the_leader_then_the_crew_one_after_the_other() -> None:
    journal, factory = Journal(closing=lambda: asyncio.sleep(0.01)), agent_factory()
    await use(factory, led(journal, journal.entry("scout"), journal.entry("writer")), "s1")
    await factory.teardown_session_agents("s1")
    assert ids(journal.closed) == ["leader", "scout", "writer"]
    assert journal.most_closing_at_once == 1


async def test_an_eviction_closes_the_crew_too_and_counts_one_agent() -> None:
    journal, kpi = Journal(), Kpi()
    factory = agent_factory(kpi=kpi, cache_size=1)
    entry = led(journal, journal.entry("scout"))
    await use(factory, entry, "s1")
    assert metric(kpi, "chat_cached_agents", agent_id="leader") == 1
    await use(factory, entry, "s2")
    await eventually(lambda: len(journal.closed) == 2)
    assert ids(journal.closed) == ["leader", "scout"]
    await factory.aclose()
    assert len(journal.closed) == 4


@pytest.mark.parametrize(
    ("fails_at", "closed"),
    [(0, ["scout"]), (1, ["scout", "writer"]), (2, ["leader", "scout", "writer"])],
    ids=["first expert", "second expert", "leader"],
)
async def test_a_build_that_fails_half_way_closes_what_there_is(fails_at: int, closed: list[str]) -> None:
    journal, factory = Journal(), agent_factory()

    async def fail() -> None:
        if len(journal.built) == fails_at + 1:
            raise RuntimeError("the secret of the author")

    journal.building = fail
    with pytest.raises(AgentUnavailable) as caught:
        await use(factory, led(journal, journal.entry("scout"), journal.entry("writer")), "s1")
    assert caught.value.content == "The agent 'leader' could not be started."
    await eventually(lambda: len(journal.closed) == len(closed))
    assert ids(journal.closed) == closed
    await factory.aclose()
    assert ids(journal.closed) == closed
