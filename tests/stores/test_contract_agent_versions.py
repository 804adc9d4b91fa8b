"""What every store does with the versions of agents, whichever database is beneath it."""

import asyncio
from dataclasses import replace

from agentic_backend.stores.base import Store
from tests.stores.conftest import OpenStore
from tests.stores.samples import an_agent_version


async def test_the_last_version_is_the_agent_and_all_are_kept(store: Store, open_store: OpenStore) -> None:
    assert (await store.latest_agent_versions(), await store.agent_version("a")) == ([], None)
    versions = [
        an_agent_version("a", 1, "created"),
        an_agent_version("a", 2),
        an_agent_version("a", 3, "deleted"),
        an_agent_version("b", 1),
    ]
    for each in versions:
        assert await store.add_agent_versions([each], 10)
    other = await open_store()
    assert await other.latest_agent_versions() == versions[2:]
    assert [each.is_deleted for each in await other.latest_agent_versions()] == [True, False]
    assert await other.agent_version("a") == versions[2]
    assert await other.agent_version("a", 1) == versions[0]
    assert await other.agent_version("a", 4) is None
    assert await other.agent_versions("a", None, 2) == [versions[2], versions[1]]
    assert await other.agent_versions("a", 2, 2) == [versions[0]]
    assert await other.agent_versions("none", None, 2) == []


async def test_versions_beyond_the_tenth_are_in_order(store: Store) -> None:
    for number in range(1, 13):
        await store.add_agent_versions([an_agent_version("a", number)], 20)
    assert [each.version for each in await store.agent_versions("a", None, 3)] == [12, 11, 10]
    assert [each.version for each in await store.latest_agent_versions()] == [12]


async def test_of_several_versions_all_are_stored_or_none(store: Store) -> None:
    first, theirs = an_agent_version("b", 1), an_agent_version("a", 1)
    assert await store.add_agent_versions([first], 10)
    assert not await store.add_agent_versions([theirs, replace(first, author="bob")], 10)
    assert await store.latest_agent_versions() == [first]
    assert await store.add_agent_versions([theirs, an_agent_version("b", 2)], 10)
    assert [(each.agent_id, each.version) for each in await store.latest_agent_versions()] == [("a", 1), ("b", 2)]


async def test_only_the_last_versions_are_kept(store: Store) -> None:
    for number in range(1, 6):
        await store.add_agent_versions([an_agent_version("a", number), an_agent_version("b", number)], 3)
    assert [each.version for each in await store.agent_versions("a", None, 10)] == [5, 4, 3]
    await store.forget_agent("a", 4)
    assert [each.version for each in await store.agent_versions("a", None, 10)] == [5]
    await store.forget_agent("a", 5)
    assert await store.agent_versions("a", None, 10) == []
    assert [each.version for each in await store.agent_versions("b", None, 10)] == [5, 4, 3]


async def test_the_revision_changes_with_each_change(store: Store, open_store: OpenStore) -> None:
    other, seen = await open_store(), set()
    seen.add(await other.agents_revision())
    for number in range(1, 6):
        await store.add_agent_versions([an_agent_version("a", number)], 2)
        seen.add(await other.agents_revision())
    assert len(seen) == 6
    assert not await store.add_agent_versions([an_agent_version("a", 5)], 2)
    assert await other.agents_revision() in seen


async def test_of_many_writers_of_one_version_one_wins(open_store: OpenStore) -> None:
    stores = [await open_store() for _ in range(3)]
    for number in range(1, 4):
        writers = [replace(an_agent_version("a", number), author=f"author {n}") for n in range(9)]
        won = await asyncio.gather(
            *(stores[n % 3].add_agent_versions([writer], 10) for n, writer in enumerate(writers))
        )
        assert won.count(True) == 1
        assert await stores[0].agent_version("a") == writers[won.index(True)]
