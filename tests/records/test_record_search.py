"""A search finds what is stored, ranked the same on every store, whoever wrote it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentic_backend.agents.run.authors_calls import AuthorsCalls
from agentic_backend.errors import BadFrame, SessionNotFound, StoreUnavailable
from agentic_backend.hosting.hosted_records import HostedRecords
from agentic_backend.records.index_terms import term_of
from agentic_backend.records.kinds import Index, Kind, Record, Words
from agentic_backend.records.layout import Layout
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.readable_records import Found
from agentic_backend.records.record_search import RecordSearch
from agentic_backend.records.records import OwnRecords, Records
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import RecordWrite
from tests.records.conftest import OpenStore
from tests.stores.samples import a_session


class Page(Record):
    text: str | None
    title: str = ""
    book: str | None = None
    language: str | None = None


PAGES = Kind("page", Page, words=Words("title", "text", within="book", language="language"))
NOTES = Kind("note", Page, owner="application", words=Words("text"), indexes={"by_book": Index("book")})
REMARKS = Kind("remark", Page, owner="session", words=Words("text"))


def records(store: Store, cache: PartitionCache | None = None) -> Records:
    layouts = [Layout("app", kind) for kind in (PAGES, NOTES, REMARKS)]
    return Records(store, layouts, RecordSearch(store, cache))


@pytest.fixture
def notes(store: Store) -> OwnRecords[Page]:
    return records(store).of(NOTES).of_application()


def keys(found: Sequence[Found[Any]]) -> list[str]:
    return [each.record.key for each in found]


async def test_the_best_comes_first_by_the_same_score_on_every_store(notes: OwnRecords[Page]) -> None:
    for key, text in {
        "short": "a red boat",
        "twice": "a boat beside a boat, and more words that are about other things",
        "long": "a boat beside many more words that are about other things",
        "without": "a car",
        "empty": "",
        "none": None,
    }.items():
        await notes.add(Page(text=text), key)
    found = await notes.search("boat")
    assert [(each.record.key, round(each.score, 9)) for each in found] == [
        ("short", 0.820459928),
        ("twice", 0.646059753),
        ("long", 0.455435532),
    ]
    assert keys(await notes.search("red boat beside", limit=2)) == ["short", "twice"]
    assert keys(await notes.search("Car!")) == ["without"]
    for query in ("", " …", "absent"):
        assert await notes.search(query) == []


async def test_records_of_the_same_score_come_by_key(notes: OwnRecords[Page]) -> None:
    for key in ("c", "a", "d", "b"):
        await notes.add(Page(text="the same"), key)
    assert keys(await notes.search("same", limit=3)) == ["a", "b", "c"]


async def test_words_are_found_in_the_forms_of_their_language(store: Store) -> None:
    anns = records(store).of(PAGES).of_user("ann")
    for key, language, text in (
        ("en", "en", "two houses"),
        ("de", "de", "zwei Häuser"),
        ("fr", "fr", "deux maisons"),
        ("none", None, "houses Häuser maisons"),
    ):
        await anns.add(Page(text=text, language=language), key)
    assert {query: set(keys(await anns.search(query, within=[None]))) for query in ("house", "Haus", "maison")} == {
        "house": {"en"},
        "Haus": {"de"},
        "maison": {"fr"},
    }
    assert set(keys(await anns.search("houses", within=[None]))) == {"en", "none"}


async def test_only_the_owners_records_within_the_values_are_found(store: Store) -> None:
    of_pages = records(store).of(PAGES)
    for owner in ("ann", "bob"):
        for book in ("a", "b", "b 2", None):
            await of_pages.of_user(owner).add(Page(title=f"word {owner}", text=None, book=book), f"{book}")
    anns = of_pages.of_user("ann")
    assert keys(await anns.search("word", within=["b"])) == ["b"]
    assert keys(await anns.search("word", within=["b", None, "b", "x"])) == ["None", "b"]
    assert await anns.search("bob", within=["a", "b", None]) == []
    assert await anns.search("word", within=[]) == await of_pages.of_user("an").search("word", within=["a"]) == []


async def test_several_partitions_are_ranked_as_one(store: Store) -> None:
    anns, bobs = (records(store).of(PAGES).of_user(owner) for owner in ("ann", "bob"))
    texts = {f"{n}": f"common {'rare ' * (n % 3 == 0)}{'more ' * n}" for n in range(10)}
    for key, text in texts.items():
        await anns.add(Page(text=text, book=f"{int(key) % 2}"), key)
        await bobs.add(Page(text=text, book="whole"), key)
    parted = await anns.search("common rare", within=["0", "1"])
    whole = await bobs.search("common rare", within=["whole"])
    assert [(each.record.key, each.score) for each in parted] == [(each.record.key, each.score) for each in whole]
    assert len(whole) == 10 and {"0", "3", "6", "9"} == set(keys(whole[:4]))


async def test_what_another_instance_writes_is_right_at_the_next_search(open_store: OpenStore) -> None:
    here, there = await open_store(), await open_store()
    own = records(here).of(PAGES).of_user("ann")
    others = records(there).of(PAGES).of_user("ann")
    stored = {f"{n}": await others.add(Page(text="word " + "more " * n, book="a"), f"{n}") for n in range(30)}
    assert keys(await own.search("word", within=["a"], limit=3)) == ["0", "1", "2"]
    # Many more than are found at once.
    for key in map(str, range(25)):
        await others.remove(stored[key])
    assert keys(await own.search("word", within=["a"], limit=3)) == ["25", "26", "27"]
    await others.change(stored["25"], Page(text="other", book="a"))
    await others.change(stored["26"], Page(text="word", book="b"))
    await others.change(stored["29"], Page(text="word", book="a"))
    await others.add(Page(text="word more", book="a"), "new")
    found = await own.search("word", within=["a"])
    assert keys(found) == ["29", "new", "27", "28"]
    assert [each.record.value.text for each in found[:2]] == ["word", "word more"]
    assert keys(await own.search("word", within=["b"])) == ["26"]
    # As if nothing had been in memory.
    anew = await records(there).of(PAGES).of_user("ann").search("word", within=["a"])
    assert [each.score for each in found] == [each.score for each in anew]


async def test_what_a_batch_writes_is_found_whole(notes: OwnRecords[Page], store: Store) -> None:
    kept = [await notes.add(Page(text="old word"), key) for key in "ab"]
    assert len(await notes.search("word")) == 2
    await records(store).write(
        [notes.changing(kept[0], Page(text="new word")), notes.removing(kept[1]), notes.adding(Page(text="word"), "c")]
    )
    assert [each.record.value.text for each in await notes.search("word")] == ["word", "new word"]


async def test_records_of_a_session_go_with_it(store: Store) -> None:
    await store.create_session(a_session("ann", id="s"))
    own = records(store).of(REMARKS).of_session("ann", "s")
    await own.add(Page(text="a remark"), "k")
    assert keys(await own.search("remarks remark")) == ["k"]
    with pytest.raises(SessionNotFound):
        await records(store).of(REMARKS).of_session("bob", "s").search("remark")
    await store.delete_session("s")
    with pytest.raises(SessionNotFound):
        await own.search("remark")
    await store.create_session(a_session("ann", id="s"))
    assert await own.search("remark") == []


async def test_a_kind_that_declares_other_words_is_indexed_anew(store: Store) -> None:
    before = replace(PAGES, words=None)
    old = Records(store, [Layout("app", before)]).of(before).of_user("ann")
    await old.add(Page(text="word", book="a"), "k")
    with pytest.raises(ValueError, match="no words"):
        await old.search("word")

    async def found(kind: Kind[Page], query: str) -> list[str]:
        await HostedRecords(store, "app", [Layout("app", kind)], AuthorsCalls("app")).open()
        own = Records(store, [Layout("app", kind)]).of(kind).of_user("ann")
        return keys(await own.search(query, within=["a"]))

    assert await found(PAGES, "word") == ["k"]
    titles = replace(PAGES, words=Words("title", within="book"))
    assert await found(titles, "word") == []
    assert await found(PAGES, "word") == ["k"]


async def test_what_an_older_release_changed_is_found_once_it_is_kept_up(store: Store) -> None:
    own = records(store).of(NOTES).of_application()
    added = await own.add(Page(text="word"), "k")
    assert len(await own.search("word")) == 1
    # It knows nothing of the columns, and leaves what is in them.
    older = replace(added.row, value={**added.row.value, "text": "other"}, revision=2, layout="older")
    await store.write_application_records([RecordWrite(older)])
    assert await own.search("word") == await own.search("other") == []
    await HostedRecords(store, "app", [Layout("app", NOTES)], AuthorsCalls("app")).upkeep(10)
    assert keys(await own.search("other")) == ["k"] and await own.search("word") == []


async def test_searches_at_once_fill_a_partition_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = records(store).of(NOTES).of_application()
    for n in range(5):
        await notes.add(Page(text="word"), f"{n}")
    read: list[str] = []
    real = store.searched_records

    async def searched_records(column: Any, places: Any, *, of_session: bool) -> Any:
        read.extend(places)
        return await real(column, places, of_session=of_session)

    monkeypatch.setattr(store, "searched_records", searched_records)
    found = await asyncio.gather(*(notes.search("word") for _ in range(5)))
    assert {len(each) for each in found} == {5} and len(read) == 5
    await notes.add(Page(text="word"), "more")
    assert len(await notes.search("word")) == 6 and len(read) == 6


async def test_a_search_that_the_store_fails_is_refused_and_the_next_one_is_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = records(store).of(PAGES).of_user("ann")
    for book in "abc":
        await pages.add(Page(text="word", book=book), book)
    real = store.searched_records

    async def searched_records(column: Any, places: Any, *, of_session: bool) -> Any:
        [place] = places
        if place.split(" ")[3] == term_of("b"):
            raise StoreUnavailable
        return await real(column, places, of_session=of_session)

    with monkeypatch.context() as failing:
        failing.setattr(store, "searched_records", searched_records)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await pages.search("word", within=[*"abc"])
    assert keys(await pages.search("word", within=[*"abc"])) == ["a", "b", "c"]


async def test_memory_is_bounded_and_what_is_too_large_for_it_is_found(store: Store) -> None:
    cache = PartitionCache(most=3)
    pages = records(store, cache).of(PAGES).of_user("ann")
    for book in "abcde":
        await pages.add(Page(text="word", book=book), book)
    assert len(await pages.search("word", within=[*"abcde"])) == 5 and len(cache) == 3
    kept = cache.bytes
    assert len(await pages.search("word", within=["e"])) == 1 and cache.bytes == kept > 0
    small = PartitionCache(most_bytes=10)
    assert len(await records(store, small).of(PAGES).of_user("ann").search("word", within=["a"])) == 1
    assert (len(small), small.bytes) == (0, 0)
    short = PartitionCache(idle_s=0.01)
    assert len(await records(store, short).of(PAGES).of_user("ann").search("word", within=["a", "b"])) == 2
    async with asyncio.timeout(20):
        while len(short):
            await asyncio.sleep(0.01)
    assert short.bytes == 0


async def test_what_can_not_be_searched_is_refused(store: Store) -> None:
    pages, notes = records(store).of(PAGES).of_user("ann"), records(store).of(NOTES).of_application()
    for act in (pages.search("x"), pages.search("x", within="a"), notes.search("x", within=["a"])):
        with pytest.raises(ValueError, match="within"):
            await act
    for values in ([1], ["x" * 201], ["\ud800"], [*map(str, range(101))]):
        with pytest.raises(BadFrame):
            await pages.search("x", within=values)
    with pytest.raises(TypeError):
        await notes.search(b"x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await notes.search("x", limit=1.5)  # type: ignore[arg-type]
    with pytest.raises(BadFrame):
        await pages.add(Page(text="", book="x" * 201))
    await notes.add(Page(text="x"))
    assert len(await notes.search("\ud800 x", limit=0)) == 1
