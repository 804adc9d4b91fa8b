"""The nearest records are found by their vectors, the same on every store, whoever wrote them."""

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import replace
from math import hypot
from random import Random
from typing import Any

import pytest
from pydantic import Field
from support.further_cases import all_but_first

from agentic_backend.agents.run.authors_calls import AuthorsCalls
from agentic_backend.errors import BadFrame, RecordConflict, SessionNotFound
from agentic_backend.hosting.hosted_records import HostedRecords
from agentic_backend.records.kinds import Kind, Record, Vectors, Words
from agentic_backend.records.layout import Layout
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.readable_records import Found, Stored
from agentic_backend.records.record_search import RecordSearch
from agentic_backend.records.records import OwnRecords, Records
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import RecordWrite
from tests.records.conftest import OpenStore
from tests.stores.samples import a_session


class Chunk(Record):
    text: str
    of: str | None = None
    seen: int = 0
    tags: list[str] = Field(default_factory=list)


CHUNKS = Kind(
    "chunk", Chunk, owner="application", words=Words("text", within="of"), vectors=Vectors("text", "tags", within="of")
)
POINTS = Kind("point", Chunk, vectors=Vectors("text"), version=2, upgrades={1: lambda value: value})
REMARKS = Kind("remark", Chunk, owner="session", vectors=Vectors("text"), append_only=True)
EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-2.0, 0.0]


def records(store: Store, cache: PartitionCache | None = None, *kinds: Kind[Any]) -> Records:
    layouts = [Layout("app", kind) for kind in kinds or (CHUNKS, POINTS, REMARKS)]
    return Records(store, layouts, RecordSearch(store, cache))


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()


@pytest.fixture
def chunks(store: Store) -> OwnRecords[Chunk]:
    return records(store).of(CHUNKS).of_application()


@pytest.fixture
def points(store: Store) -> OwnRecords[Chunk]:
    return records(store).of(POINTS).of_user("ann")


def keys(found: Sequence[Found[Any]]) -> list[str]:
    return [each.record.key for each in found]


async def nearest_to_east(own: OwnRecords[Any]) -> list[str]:
    return keys(await own.nearest(EAST))


async def test_records_come_by_their_cosine_then_by_key(points: OwnRecords[Chunk]) -> None:
    for key, vector in {"d": WEST, "c": [5, 0], "a": EAST, "b": NORTH, "e": [3, 4]}.items():
        await points.add(Chunk(text=key), key, vector=vector)
    await points.add(Chunk(text=""), "without")
    await points.add(Chunk(text=""), "other", vector=[1, 0, 0])
    found = await points.nearest(array("f", EAST).tobytes())
    expected = {"a": 1.0, "c": 1.0, "e": 0.6, "b": 0.0, "d": -1.0}
    assert {each.record.key: pytest.approx(each.score, abs=1e-7) for each in found} == expected
    assert keys(found) == list(expected) and found[2].record.value == Chunk(text="e")
    assert keys(await points.nearest(EAST, limit=2)) == ["a", "c"]
    assert keys(await points.nearest([0, 1, 0])) == ["other"] and await points.nearest([1]) == []


async def test_a_change_keeps_the_vector_while_it_is_of_the_same(chunks: OwnRecords[Chunk], store: Store) -> None:
    async def found(of: str = "a") -> list[str]:
        return keys(await chunks.nearest(EAST, within=[of]))

    tagged = Chunk(text="t", of="a", tags=["x"])
    stored = await chunks.add(tagged, "k", vector=EAST)
    stored = await chunks.change(stored, replaced(tagged, seen=1))
    assert await found() == ["k"] and keys(await chunks.search("t", within=["a"])) == ["k"]
    [there] = await store.get_application_records([stored.row.id], of_session=False)
    # In a batch too, and as it is read.
    read = Stored("k", stored.value, there)
    await records(store).write([chunks.changing(read, replaced(tagged, seen=2)), chunks.adding(tagged, "new")])
    assert await found() == ["k"]
    for change in ({"text": "other"}, {"tags": ["x", "y"]}, {"of": "b"}):
        stored = await chunks.add(tagged, f"{change}", vector=EAST)
        changed = await chunks.change(stored, replaced(tagged, **change))
        assert await found() == ["k"] == keys(await chunks.nearest(WEST, within=["a", "b"]))
        again = await chunks.change(changed, replaced(tagged, **change), vector=EAST)
        assert len(await chunks.nearest(EAST, within=["a", "b"])) == 2
        await chunks.remove(again)
    # Also where the value that was read is the one that is changed.
    stored = await chunks.add(tagged, "mutated", vector=EAST)
    stored.value.tags.append("y")
    await chunks.change(stored, stored.value)
    assert await found() == ["k"]


def replaced(chunk: Chunk, **fields: Any) -> Chunk:
    return chunk.model_copy(update=fields)


async def test_only_the_owners_records_within_the_values_are_found(chunks: OwnRecords[Chunk], store: Store) -> None:
    for of in ("a", "b", "b 2", None):
        await chunks.add(Chunk(text="", of=of), f"{of}", vector=EAST)
    assert keys(await chunks.nearest(EAST, within=["b"])) == ["b"]
    assert keys(await chunks.nearest(EAST, within=["b", None, "x", "b"])) == ["None", "b"]
    of_points = records(store).of(POINTS)
    for owner in ("ann", "bob"):
        await of_points.of_user(owner).add(Chunk(text=""), owner, vector=EAST)
    assert await nearest_to_east(of_points.of_user("bob")) == ["bob"]
    assert await nearest_to_east(of_points.of_user("bo")) == []


async def test_several_parts_are_ranked_as_one(chunks: OwnRecords[Chunk]) -> None:
    random = Random(1)
    for number in range(60):
        await chunks.add(Chunk(text="", of=f"{number % 20}"), f"{number}", vector=[random.gauss() for _ in range(4)])
    whole = await chunks.nearest(EAST * 2, within=[f"{part}" for part in range(20)], limit=60)
    scores = [each.score for each in whole]
    assert len(whole) == 60 and scores == sorted(scores, reverse=True)
    assert keys(await chunks.nearest(EAST * 2, within=[f"{part}" for part in range(20)], limit=7)) == keys(whole[:7])


class Reference:
    """What is stored, searched one after the other in plain Python."""

    def __init__(self) -> None:
        self.vectors: dict[str, list[float] | None] = {}

    def nearest(self, query: list[float]) -> list[tuple[float, str]]:
        scores: list[tuple[float, str]] = []
        for key, vector in self.vectors.items():
            if vector is not None and len(vector) == len(query):
                product = sum(a * b for a, b in zip(vector, query, strict=True))
                scores.append((round(-product / hypot(*vector) / hypot(*query), 5), key))
        return sorted(scores)


@pytest.mark.parametrize("seed", all_but_first(*range(6)))
async def test_what_is_found_is_what_a_plain_search_finds(open_store: OpenStore, seed: int) -> None:
    random, reference = Random(seed), Reference()
    stored: dict[str, Stored[Chunk]] = {}
    # Two instances, of which one keeps little in memory.
    caches = PartitionCache(), PartitionCache(most_bytes=2_000)
    own = [records(await open_store(), cache).of(CHUNKS).of_application() for cache in caches]

    def a_vector() -> list[float]:
        return [random.choice([-2.0, -1.0, 1.0, 3.0]) for _ in range(random.choice([2, 2, 3]))]

    def a_write(by: OwnRecords[Chunk], key: str) -> tuple[RecordWrite, Chunk | None]:
        vector = a_vector() if random.random() < 0.7 else None
        if key not in stored:
            reference.vectors[key] = vector
            value = Chunk(text=random.choice("ab"), of=random.choice("ab"))
            return by.adding(value, key, vector=vector), value
        before = stored[key].value
        if random.random() < 0.3:
            del reference.vectors[key]
            return by.removing(stored[key]), None
        value = Chunk(text=random.choice("ab"), of=random.choice("ab"), seen=random.randint(0, 9))
        if vector is not None or (value.text, value.of) != (before.text, before.of):
            reference.vectors[key] = vector
        return by.changing(stored[key], value, vector=vector), value

    for _ in range(40):
        which = random.randrange(2)
        picked = random.sample("abcdefghijklmnop", random.choice([1, 1, 4]))
        batch = [(key, *a_write(own[which], key)) for key in picked]
        await own[which]._store.write_application_records([write for _, write, _ in batch])
        for key, write, value in batch:
            stored.pop(key, None)
            if value is not None:
                stored[key] = Stored(key, value, replace(write.record, vector=None))
        query, limit = a_vector(), random.choice([1, 3, 50])
        found = await random.choice(own).nearest(query, within=["a", "b"], limit=limit)
        got, expected = [(-each.score, each.record.key) for each in found], reference.nearest(query)
        assert got == sorted(got)
        rounded = sorted((round(below, 5), key) for below, key in got)
        # Of those that score as the last one any may be left out: cosines are rounded by the order of their numbers.
        assert [below for below, _ in rounded] == [below for below, _ in expected[:limit]]
        assert set(rounded) <= set(expected)
        assert all(stored[each.record.key].value == each.record.value for each in found)


async def test_what_another_instance_writes_is_right_at_the_next_search(open_store: OpenStore) -> None:
    own, others = [records(await open_store()).of(POINTS).of_user("ann") for _ in range(2)]
    stored = [await others.add(Chunk(text=""), f"{n:02}", vector=[1, n / 100]) for n in range(30)]
    assert keys(await own.nearest(EAST, limit=3)) == ["00", "01", "02"]
    # Many more than are found at once.
    for each in stored[:25]:
        await others.remove(each)
    assert keys(await own.nearest(EAST, limit=3)) == ["25", "26", "27"]
    await others.change(stored[29], stored[29].value, vector=EAST)
    await others.change(stored[25], Chunk(text="other"))
    await others.add(Chunk(text=""), "new", vector=[1, 0.26])
    assert await nearest_to_east(own) == ["29", "26", "new", "27", "28"]
    with pytest.raises(RecordConflict):
        await own.change(stored[29], Chunk(text="late"), vector=WEST)
    assert await nearest_to_east(own) == ["29", "26", "new", "27", "28"]


async def test_a_search_reads_only_what_it_searches(
    chunks: OwnRecords[Chunk], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in "abc":
        await chunks.add(Chunk(text="word", of="a"), key, vector=EAST)
    read: list[str] = []
    real = store.searched_records

    async def searched_records(column: Any, places: Any, *, of_session: bool) -> Any:
        read.extend(column for _ in places)
        return await real(column, places, of_session=of_session)

    monkeypatch.setattr(store, "searched_records", searched_records)
    [found, *_] = await chunks.search("word", within=["a"])
    assert read == ["words"] * 3 and (found.record.row.words, found.record.row.vector) == (None, None)
    for _ in range(2):
        assert len(await chunks.nearest(EAST, within=["a"])) == 3
        assert read == ["words"] * 3 + ["vector"] * 3


async def test_few_parts_are_filled_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    of_points = records(store).of(POINTS)
    own = [of_points.of_user(f"{number}") for number in range(6)]
    for each in own:
        await each.add(Chunk(text=""), "k", vector=EAST)
    reading, most = 0, 0
    real = store.searched_records

    async def searched_records(column: Any, places: Any, *, of_session: bool) -> Any:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await asyncio.sleep(0.01)
        found = await real(column, places, of_session=of_session)
        reading -= 1
        return found

    monkeypatch.setattr(store, "searched_records", searched_records)
    assert await asyncio.gather(*(nearest_to_east(each) for each in own)) == [["k"]] * 6
    assert most == 2


async def test_records_of_a_session_go_with_it(store: Store) -> None:
    await store.create_session(a_session("ann", id="s"))
    own = records(store).of(REMARKS).of_session("ann", "s")
    await own.add(Chunk(text=""), "k", vector=EAST)
    assert await nearest_to_east(own) == ["k"]
    with pytest.raises(SessionNotFound):
        await nearest_to_east(records(store).of(REMARKS).of_session("bob", "s"))
    await store.delete_session("s")
    with pytest.raises(SessionNotFound):
        await nearest_to_east(own)
    await store.create_session(a_session("ann", id="s"))
    assert await nearest_to_east(own) == []


async def open_as(store: Store, kind: Kind[Chunk]) -> OwnRecords[Chunk]:
    """What an application finds that declares the kind so, once it has started."""
    await HostedRecords(store, "app", [Layout("app", kind)], AuthorsCalls("app")).open()
    return records(store, None, kind).of(kind).of_user("ann")


async def test_vectors_are_kept_with_a_new_version_or_layout(store: Store, points: OwnRecords[Chunk]) -> None:
    before = replace(POINTS, version=1, upgrades={})
    old = records(store, None, before).of(before).of_user("ann")
    await old.add(Chunk(text="x", of="a"), "k", vector=EAST)
    await old.add(Chunk(text="x", of="a"), "without")
    # Nothing is found where the kind is another, until it is kept up.
    assert await nearest_to_east(points) == []
    assert await nearest_to_east(await open_as(store, POINTS)) == ["k"]
    parted = await open_as(store, replace(POINTS, vectors=Vectors("text", within="of")))
    assert keys(await parted.nearest(EAST, within=["a"])) == ["k"]


async def test_records_of_before_a_kind_had_vectors_get_theirs(store: Store) -> None:
    plain = replace(POINTS, vectors=None)
    old = records(store, None, plain).of(plain).of_user("ann")
    await old.add(Chunk(text="x"), "k")
    with pytest.raises(ValueError, match="declares no vectors"):
        await old.nearest(EAST)
    with pytest.raises(ValueError, match="declares no vectors"):
        await old.add(Chunk(text="x"), vector=EAST)
    now = await open_as(store, POINTS)
    assert await nearest_to_east(now) == []
    stored = await now.get("k")
    assert stored is not None
    await now.change(stored, stored.value, vector=EAST)
    assert await nearest_to_east(now) == ["k"]
    # One that declares none removes them.
    await open_as(store, plain)
    assert await nearest_to_east(await open_as(store, POINTS)) == []


async def test_an_old_vector_is_not_taken_for_what_an_older_release_wrote(
    store: Store, points: OwnRecords[Chunk]
) -> None:
    added = await points.add(Chunk(text="x"), "k", vector=EAST)
    # It knows nothing of the column, and leaves what is in it.
    value = {**added.row.value, "text": "other"}
    older = replace(added.row, value=value, revision=2, layout="0" * 16)
    await store.write_application_records([RecordWrite(older, keeps_vector=True)])
    assert await nearest_to_east(points) == []
    assert await nearest_to_east(await open_as(store, POINTS)) == []
    [stored] = (await points.find()).records
    assert stored.value.text == "other"


async def test_a_batch_of_the_largest_vectors_is_written_whole(points: OwnRecords[Chunk], store: Store) -> None:
    vector = [1.0] * 4_096
    batch = [points.adding(Chunk(text="x" * 1_000), f"{n:03}", vector=vector) for n in range(100)]
    await records(store).write(batch)
    assert len(await points.nearest(vector, limit=200)) == 100
    stored = (await points.find(limit=100)).records
    changes = [points.changing(each, each.value, vector=[-1.0] * 4_096) for each in stored[:-1]]
    with pytest.raises(RecordConflict):
        await records(store).write([*changes, points.adding(Chunk(text=""), "099", vector=vector)])
    assert {round(each.score, 6) for each in await points.nearest(vector, limit=200)} == {1}
    await records(store).write(changes)
    assert sum(each.score < 0 for each in await points.nearest(vector, limit=200)) == 99


async def test_what_can_not_be_searched_is_refused(chunks: OwnRecords[Chunk], points: OwnRecords[Chunk]) -> None:
    for act in (chunks.nearest(EAST), chunks.nearest(EAST, within="a"), points.nearest(EAST, within=["a"])):
        with pytest.raises(ValueError, match="within"):
            await act
    for values in ([1], ["x" * 201], [*map(str, range(101))]):
        with pytest.raises(BadFrame):
            await chunks.nearest(EAST, within=values)
    for vector, error in (("1", TypeError), ([0.0], ValueError), ([float("nan")], ValueError)):
        with pytest.raises(error):
            await points.nearest(vector)  # type: ignore[arg-type]
        with pytest.raises(error):
            points.adding(Chunk(text=""), vector=vector)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await points.nearest(EAST, limit=1.5)  # type: ignore[arg-type]
    assert await chunks.nearest(EAST, within=[]) == []
