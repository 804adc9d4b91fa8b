"""What every store does with the items that graphs keep, whichever database is beneath it."""

import asyncio

import pytest

from agentic_backend.errors import LimitReached
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.items import SHARED, ItemBounds, ItemQuery, item_id
from tests.stores.conftest import OpenStore
from tests.stores.samples import EPOCH, an_item

WIDE = ItemBounds(1_000, 1_000_000)


async def keys(store: Store, query: ItemQuery) -> list[str]:
    return [item.key for item in await store.find_items(query)]


async def test_an_item_is_kept_replaced_and_removed(store: Store, open_store: OpenStore) -> None:
    first = an_item("a.b", "k\0'é", '{"größer": [1.5, null, "\\u0000"]}')
    await store.put_items([first, an_item("a", "other")], [], WIDE)
    assert await (await open_store()).get_items([first.id, "absent"]) == [first]
    newer = an_item("a.b", "k\0'é", '{"x": 1}', minute=3)
    await store.put_items([newer], [item_id("ann", "a", "other"), "absent"], WIDE)
    [kept] = await store.find_items(ItemQuery("ann"))
    assert (kept.value, kept.created_at, kept.updated_at) == ('{"x": 1}', EPOCH, newer.updated_at)
    await store.put_items([], [first.id], WIDE)
    assert await store.get_items([first.id]) == []


async def test_items_are_found_by_the_beginning_of_their_namespace_the_last_updated_first(store: Store) -> None:
    places = ["a", "a.b", "a.b.c", "a.bc", "ab", "a-b", "b.a", "a.é", "a.😀"]
    await store.put_items([an_item(place, place, minute=n) for n, place in enumerate(places)], [], WIDE)
    await store.put_items([an_item("a", "theirs", owner="bob"), an_item("a", "ours", owner=SHARED)], [], WIDE)
    assert await keys(store, ItemQuery("ann")) == places[::-1]
    assert await keys(store, ItemQuery("ann", "a")) == ["a.😀", "a.é", "a.bc", "a.b.c", "a.b", "a"]
    assert await keys(store, ItemQuery("ann", "a.b")) == ["a.b.c", "a.b"]
    assert await keys(store, ItemQuery("ann", "a", limit=2, offset=1)) == ["a.é", "a.bc"]
    assert await keys(store, ItemQuery("bob")) == ["theirs"] and await keys(store, ItemQuery(SHARED)) == ["ours"]
    assert await store.item_namespaces("ann") == sorted(places)
    assert await store.item_namespaces("nobody") == []


async def test_nobody_keeps_more_than_the_bounds(store: Store) -> None:
    few = ItemBounds(2, 12)
    await store.put_items([an_item("a", "1"), an_item("a", "2", '{"a": 1}')], [], few)
    for items, removed in (
        ([an_item("a", "3")], []),
        ([an_item("a", "1", '{"a": 22}')], []),
        ([an_item("a", "3", '{"a": 22}')], [item_id("ann", "a", "1")]),
    ):
        with pytest.raises(LimitReached, match="2 items of 12 bytes"):
            await store.put_items(items, removed, few)
        assert {item.key: item.value for item in await store.find_items(ItemQuery("ann"))} == {
            "1": "{}",
            "2": '{"a": 1}',
        }
    await store.put_items([an_item("a", "3", owner="bob")], [], few)
    await store.put_items([an_item("a", "3")], [item_id("ann", "a", "1")], few)
    # Lowered bounds still let an owner keep less.
    await store.put_items([an_item("a", "2", '{"a":1}')], [], ItemBounds(1, 1))
    with pytest.raises(LimitReached):
        await store.put_items([an_item("a", "2", '{"a": 1}')], [], ItemBounds(1, 1))


async def test_writers_of_the_same_items_do_not_fail(store: Store) -> None:
    values = [f'{{"n": {number}}}' for number in range(8)]
    keys = [f"same {number}" for number in range(5)]
    batches = [[an_item("a", key, value) for key in keys] for value in values]
    await asyncio.gather(*(store.put_items(batch, [], WIDE) for batch in batches))
    kept = await store.find_items(ItemQuery("ann"))
    assert sorted(item.key for item in kept) == keys
    assert {item.value for item in kept} <= set(values)
