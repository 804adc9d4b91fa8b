"""The records of an application: each owner's apart, found by indexes, written whole or not at all."""

from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ConfigDict, Field, SecretStr, model_serializer
from support.notes import COMMENTS, NOTES, WORDS, Comment, Mood, Note, Word

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame, Forbidden, LimitReached, RecordConflict, SessionNotFound
from agentic_backend.records.kinds import Index, Kind, Record
from agentic_backend.records.layout import Layout
from agentic_backend.records.readable_records import RecordPage
from agentic_backend.records.records import OwnRecords, Records
from agentic_backend.stores.protocol.trail import AdminReadRecord, TrailQuery
from agentic_backend.stores.sqlite import SqliteStore
from tests.stores.samples import a_session

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
    await store.open_application_records()
    yield store
    await store.aclose()


@pytest.fixture
def records(store: SqliteStore) -> Records:
    return Records(store, [Layout("notes", kind) for kind in (NOTES, COMMENTS, WORDS)])


@pytest.fixture
def anns(records: Records) -> OwnRecords[Note]:
    return records.of(NOTES).of_user("ann")


def texts(page: RecordPage[Any]) -> list[str]:
    return [each.value.text for each in page.records]


async def test_a_record_is_written_and_read_as_it_was(anns: OwnRecords[Note], records: Records) -> None:
    value = Note(text="é\0$", topic="a", slug="s", at=NOON, stars=0.5, mood=Mood.BAD)
    added = await anns.add(value, key="k/é\0")
    assert added.value == value and await anns.get("k/é\0") == added
    assert (added.user_id, added.created_at) == ("ann", added.updated_at)
    changed = await anns.change(added, value.model_copy(update={"stars": 3}))
    assert changed.value.stars == 3.0 and changed.created_at == added.created_at
    with pytest.raises(RecordConflict):
        await anns.change(added, value)
    with pytest.raises(RecordConflict):
        await anns.remove(added)
    await anns.remove(changed)
    assert await anns.get("k/é\0") is None
    words = records.of(WORDS).of_application()
    assert (await words.add(Word(word="w", meaning=b"\xff"))).value.meaning == b"\xff"


async def test_nobody_gets_what_is_anothers(anns: OwnRecords[Note], records: Records) -> None:
    bobs = records.of(NOTES).of_user("bob")
    his = await bobs.add(Note(text="his", topic="a"), key="k")
    await anns.add(Note(text="hers", topic="a"), key="k")
    assert texts(await anns.find("by_topic", "a")) == texts(await anns.find()) == ["hers"]
    for act in (anns.changing, lambda stored, value: anns.removing(stored)):
        with pytest.raises(ValueError, match="another owner's"):
            act(his, his.value)
    # Names that look like a part of others.
    for name in ("", "ann ", "an", "ann 6b", "ann%", "ann~"):
        assert texts(await records.of(NOTES).of_user(name).find()) == []
    for index in ("topics", "by_slug"):
        with pytest.raises(ValueError, match="all owners"):
            await anns.find(index)
    with pytest.raises(ValueError, match="owner"):
        records.of(NOTES).of_session("ann", "s")
    with pytest.raises(LookupError):
        records.of(Kind("other", Note))

    class Odd(str):
        __slots__ = ()

    with pytest.raises(TypeError, match="the id of an owner"):
        records.of(NOTES).of_user(Odd("ann"))


@pytest.mark.parametrize("descending", [False, True])
async def test_records_are_found_by_their_values_page_by_page(anns: OwnRecords[Note], descending: bool) -> None:
    for number in range(7):
        at = None if number == 6 else NOON + timedelta(minutes=number)
        await anns.add(Note(text=f"{number}", topic="ab"[number % 2], stars=-number, at=at), key=f"k{number}")

    async def all_of(*query: Any, **how: Any) -> list[str]:
        found: list[str] = []
        cursor = None
        while True:
            page = await anns.find(*query, **how, descending=descending, limit=2, cursor=cursor)
            found += texts(page)
            if (cursor := page.next_cursor) is None:
                return found[::-1] if descending else found

    assert await all_of() == ["0", "1", "2", "3", "4", "5", "6"]
    in_pages = anns.each("by_topic", "a", descending=descending, page_size=3)
    assert [each.value.text async for each in in_pages] == (list("0246") if descending else list("6420"))
    assert await all_of("by_topic", "a") == ["6", "4", "2", "0"]
    assert await all_of("by_topic", "a", at_least=-4, below=0) == ["4", "2"]
    assert await all_of("by_topic", "a", below=-3) == ["6", "4"]
    assert await all_of("by_topic", "a", -4) == ["4"]
    assert await all_of("by_topic", at_least="b") == ["5", "3", "1"]
    assert await all_of("by_topic", beginning="a") == ["6", "4", "2", "0"]
    assert await all_of(beginning="k") == await all_of(beginning="") == ["0", "1", "2", "3", "4", "5", "6"]
    assert await all_of(beginning="k4") == ["4"]
    assert await all_of("by_time", None) == ["6"]
    # None is below nothing.
    assert await all_of("by_time", below=NOON + timedelta(minutes=2)) == ["0", "1"]
    assert await all_of("by_time", at_least=NOON + timedelta(minutes=2), below="2026-11-30T12:04:00Z") == ["2", "3"]
    assert sorted(await all_of("by_mood", "good", below=None)) == [f"{number}" for number in range(7)]


async def test_what_is_no_value_or_place_of_an_index_is_refused(anns: OwnRecords[Note], records: Records) -> None:
    await anns.add(Note(text="1", topic="a"))
    await anns.add(Note(text="2", topic="a"))
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("by_topic", 1), {}),
        (("by_topic", "a"), {"below": "x"}),
        (("by_mood", "happy"), {}),
        (("by_topic", "x" * 201), {}),
        (("by_topic", "a"), {"cursor": "x"}),
        (("by_topic", "a"), {"cursor": "WzEsMl0="}),
        (("by_topic", "a"), {"cursor": "MQo="}),
        (("by_topic", "a"), {"cursor": "\ud800"}),
        ((), {"cursor": ""}),
        (("by_time", "\ud800"), {}),
    ]
    for query, how in wrong:
        with pytest.raises(BadFrame):
            await anns.find(*query, **how)
    faults: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("by_mood", "good", "more"), {}),
        (("by_mood", "good"), {"beginning": "a"}),
        (("by_topic",), {"beginning": "a", "below": "b"}),
        ((), {"at_least": "a"}),
    ]
    for query, how in faults:
        with pytest.raises(ValueError, match=r"more values|a beginning"):
            await anns.find(*query, **how)
    with pytest.raises(TypeError, match="limit"):
        await anns.find(limit=2.5)  # type: ignore[arg-type]
    cursor = (await anns.find("by_topic", "a", limit=1)).next_cursor
    assert cursor is not None
    bobs = records.of(NOTES).of_user("bob")
    await bobs.add(Note(text="his", topic="a"))
    # A place is one among the reader's own.
    assert set(texts(await bobs.find("by_topic", "a", cursor=cursor))) <= {"his"}
    assert texts(await anns.find("by_topic", "b", cursor=cursor)) == []


async def test_what_can_not_be_stored_is_refused_and_nothing_is_written(anns: OwnRecords[Note]) -> None:
    refused: list[tuple[Note, str | None]] = [
        (Note(text="x" * 300_000), None),
        (Note.model_construct(text="\ud800"), None),
        (Note(text="", topic="ü" * 101), None),
        (Note(text=""), ""),
        (Note(text=""), "k" * 201),
        (Note(text=""), "\ud800"),
    ]
    for value, key in refused:
        with pytest.raises(BadFrame):
            await anns.add(value, key)
    assert texts(await anns.find()) == []


class Secretive(Record):
    secret: SecretStr


class Listed(Record):
    text: str

    @model_serializer
    def as_list(self) -> list[str]:
        return [self.text]


class Forgetful(Record):
    text: str = ""
    more: str = Field("", exclude=True)


class Folded(Record):
    model_config = ConfigDict(str_to_lower=True)
    text: str


@pytest.mark.parametrize(
    "value",
    [
        Note(text="").model_copy(update={"stars": float("inf")}),
        Note(text="").model_copy(update={"text": b"private words"}),
        Secretive(secret=SecretStr("private words")),
        Listed(text="private words"),
        Forgetful(text="", more="private words"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_would_not_be_read_as_it_is_is_no_record(
    store: SqliteStore, value: Record, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    kind = Kind("odd", type(value))
    odd = Records(store, [Layout("app", kind)]).of(kind).of_user("ann")
    with pytest.raises(ValueError, match="a record of kind app:odd") as refused:
        await odd.add(value)
    assert "private words" not in f"{refused.value} {refused.value.__cause__} {caplog.text}" and len(recwarn) == 0
    assert (await odd.find()).records == []


async def test_a_value_is_looked_for_as_the_model_has_it(store: SqliteStore) -> None:
    kind = Kind("folded", Folded, indexes={"by_text": Index("text")})
    folded = Records(store, [Layout("app", kind)]).of(kind).of_user("ann")
    await folded.add(Folded(text="ABC"))
    assert texts(await folded.find("by_text", "AbC")) == ["abc"]


async def test_several_writes_count_all_or_none(anns: OwnRecords[Note], records: Records) -> None:
    first, second = await anns.add(Note(text="1"), "1"), await anns.add(Note(text="2", slug="s"), "2")
    words = records.of(WORDS).of_application()
    whole = [anns.changing(first, Note(text="one")), anns.removing(second), words.adding(Word(word="w"))]
    spoilers: list[Callable[[], Any]] = [
        lambda: anns.adding(Note(text="", slug="s")),
        lambda: anns.adding(Note(text="again"), "1"),
        lambda: anns.changing(first, Note(text="twice")),
    ]
    for spoiler in spoilers:
        with pytest.raises(RecordConflict):
            await records.write([*whole, spoiler()])
        assert texts(await anns.find()) == ["1", "2"] and (await words.find()).records == []
    with pytest.raises(BadFrame, match="101 records"):
        await records.write([anns.adding(Note(text="")) for _ in range(101)])
    await records.write([])
    await records.write(whole)
    assert texts(await anns.find()) == ["one"] and len((await words.find()).records) == 1
    for _ in range(2):
        await records.write([anns.adding(Note(text="")) for _ in range(100)])
    with pytest.raises(LimitReached, match="300"):
        await records.write([anns.adding(Note(text="")) for _ in range(100)])


async def test_unique_values_are_of_one_record_and_none_is_of_many(anns: OwnRecords[Note], records: Records) -> None:
    await anns.add(Note(text="1", slug="s"))
    with pytest.raises(RecordConflict):
        await records.of(NOTES).of_user("bob").add(Note(text="2", slug="s"))
    other = await anns.add(Note(text="2"))
    await anns.add(Note(text="3"))
    with pytest.raises(RecordConflict):
        await anns.change(other, Note(text="2", slug="s"))
    found = await records.of(NOTES).of_all("eve").find("by_slug", "s")
    assert texts(found) == ["1"]


async def test_records_of_a_session_are_added_and_go_with_it(store: SqliteStore, records: Records) -> None:
    await store.create_session(a_session("ann", id="s"))
    own = records.of(COMMENTS).of_session("ann", "s")
    added = await own.add(Comment(text="c"), "k")
    with pytest.raises(ValueError, match="only added"):
        await own.change(added, Comment(text="d"))
    with pytest.raises(ValueError, match="only added"):
        await own.remove(added)
    strangers: list[OwnRecords[Comment]] = [
        records.of(COMMENTS).of_session("bob", "s"),
        records.of(COMMENTS).of_session("ann", "x"),
    ]
    for stranger in strangers:
        for act in (stranger.find(), stranger.add(Comment(text="")), stranger.get("k")):
            with pytest.raises(SessionNotFound):
                await act
    assert texts(await own.find()) == ["c"]
    await store.delete_session("s")
    with pytest.raises(SessionNotFound):
        await own.get("k")


async def test_reads_of_all_owners_are_noted_before(
    store: SqliteStore, anns: OwnRecords[Note], records: Records
) -> None:
    await anns.add(Note(text="hers", topic="a"))
    everybodys = records.of(NOTES).of_all("eve")
    assert texts(await everybodys.find("topics", "a")) == ["hers"]
    for index in ("by_topic", None):
        with pytest.raises(ValueError, match="over all owners"):
            await everybodys.find(index)
    assert texts(await records.of(NOTES).of_all(None).find("topics", "a")) == ["hers"]
    reads = (await store.trail(TrailQuery(AdminReadRecord))).records
    assert [(each.user_id, each.path) for each in reads] == [("eve", "records notes:note topics")]


async def test_a_cursor_tells_nothing_of_whose_the_records_are(anns: OwnRecords[Note], records: Records) -> None:
    for number in range(2):
        await anns.add(Note(text="hers", topic="a"), f"key {number}")
    cursor = (await records.of(NOTES).of_all("eve").find("topics", "a", limit=1)).next_cursor
    place = urlsafe_b64decode(cursor or "").decode()
    assert b"ann".hex() not in place and b"key".hex() not in place


class Shelf(Record):
    title: str
    shared_with: str | None = None


SHELVES = Kind("shelf", Shelf, group="shared_with", indexes={"shared": Index("shared_with", "title", all_owners=True)})


async def test_members_of_a_group_find_what_is_shared_with_it(store: SqliteStore) -> None:
    shelves = Records(store, [Layout("library", SHELVES)]).of(SHELVES)
    anns, bob, eve = shelves.of_user("ann"), User("bob", "Bob", groups=frozenset({"staff"})), User("eve", "Eve")
    await anns.add(Shelf(title="hers"))
    shared = await anns.add(Shelf(title="theirs", shared_with="staff"))
    await anns.add(Shelf(title="others", shared_with="staff2"))
    for_staff = shelves.of_group(bob, "staff")
    found = (await for_staff.find("shared")).records
    assert [(each.user_id, each.value.title) for each in found] == [("ann", "theirs")]
    assert [each.key for each in (await for_staff.find("shared", "theirs")).records] == [shared.key]
    with pytest.raises(Forbidden):
        shelves.of_group(eve, "staff")
    with pytest.raises(ValueError, match="begins with the group"):
        await for_staff.find()
    # The owner has written it, so it is no read that admins look at.
    assert not (await store.trail(TrailQuery(AdminReadRecord))).records
    await anns.change(shared, Shelf(title="theirs"))
    assert not (await for_staff.find("shared")).records


async def test_several_are_read_at_once_and_none_of_anothers(anns: OwnRecords[Note], records: Records) -> None:
    await records.of(NOTES).of_user("bob").add(Note(text="his"), "b")
    for key in ("a", "c"):
        await anns.add(Note(text=key), key)
    found = await anns.get_several(["a", "b", "c", "d", "a"])
    assert {key: each.value.text for key, each in found.items()} == {"a": "a", "c": "c"}
    assert await anns.get_several([]) == {}
    with pytest.raises(BadFrame):
        await anns.get_several([str(number) for number in range(201)])
