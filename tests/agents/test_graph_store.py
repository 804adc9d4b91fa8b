"""A graph's store and its batches: what they ask of the server's Store, and what they refuse."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, Op, PutOp, SearchOp
from support.failing_store import FailingStore

from agentic_backend.agents.state import graph_store
from agentic_backend.agents.state.graph_store import GraphStore
from agentic_backend.errors import LimitReached
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.stores.sqlite import SqliteStore


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[FailingStore]:
    store = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5)
    yield FailingStore(store)
    await store.aclose()


@pytest.fixture
async def store(database: FailingStore) -> GraphStore:
    return GraphStore(database.as_store, ItemBounds(), "ann", is_read_only=False)


async def test_the_items_of_a_batch_are_read_at_once(store: GraphStore, database: FailingStore) -> None:
    await store.abatch([PutOp(("a",), f"k{number}", {"v": number}) for number in range(300)])
    second = database.hold_answer("get_items", 2)
    second.released.set()
    found = await store.abatch([GetOp(("a",), key) for key in ("k1", "absent", "k299", "k1")])
    assert [None if item is None else item.value for item in found] == [{"v": 1}, None, {"v": 299}, {"v": 1}]  # type: ignore[union-attr]
    assert not second.reached.is_set()


@pytest.mark.parametrize("op", [PutOp((), "k", {}), PutOp((), "k", None), GetOp((), "k")], ids=["put", "delete", "get"])
async def test_an_item_needs_a_namespace(store: GraphStore, op: Op) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("a",), "k", {}), op])
    assert await store.abatch([SearchOp(())]) == [[]]


async def test_texts_that_no_store_can_hold_are_cleaned(store: GraphStore) -> None:
    await store.aput(("files",), "k", {"names": ["caf\udce9\x00"]})
    found = await store.aget(("files",), "k")
    assert found is not None and found.value == {"names": ["caf\ufffd\ufffd"]}


async def test_a_batch_has_a_bound(store: GraphStore) -> None:
    with pytest.raises(LimitReached, match="at most 1000 operations"):
        await store.abatch([PutOp(("a",), f"k{number}", {}) for number in range(1001)])
    assert await store.abatch([SearchOp(())]) == [[]]


class Unread(list[Any]):
    """A large list that nobody may read through."""

    def __len__(self) -> int:
        return 10_000_000

    def __iter__(self) -> Any:
        raise AssertionError("read")


@pytest.mark.parametrize(
    "value", [Unread([1]), [Unread([1])], {"deep": Unread([1])}], ids=["list", "in list", "in dict"]
)
async def test_a_value_that_is_too_large_is_refused_without_reading_it_through(store: GraphStore, value: Any) -> None:
    with pytest.raises(LimitReached, match="262144 bytes"):
        await store.aput(("a",), "k", {"v": value})


@pytest.mark.parametrize("is_own_loop", [False, True], ids=["thread", "own loop"])
async def test_what_a_thread_no_longer_waits_for_ends(
    store: GraphStore, database: FailingStore, monkeypatch: pytest.MonkeyPatch, is_own_loop: bool
) -> None:
    monkeypatch.setattr(graph_store, "_PATIENCE_S", 0.2)
    database.hold("get_items")
    before = asyncio.all_tasks()

    def in_thread() -> object:
        return asyncio.run(store.aget(("a",), "k")) if is_own_loop else store.get(("a",), "k")

    with pytest.raises(TimeoutError):
        await asyncio.to_thread(in_thread)
    assert database.waiting == ["get_items"]
    if left := asyncio.all_tasks() - before:
        await asyncio.wait(left, timeout=2)
    assert not asyncio.all_tasks() - before
