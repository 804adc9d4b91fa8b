"""Records of applications on a server: calls, upgrades, deletions, and what keeps an application from serving."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.notes import COMMENTS, NOTES, PATH, WORDS, Note, Notes, Word
from support.rest_client import error_of, plain_http, rest
from support.running_server import running_server

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Application, Index, Kind, Record, Vectors, Words
from agentic_backend.hosting.declared_records import declared_records
from agentic_backend.stores.opening import open_sqlite
from agentic_backend.stores.protocol.application_records import RecordWrite
from agentic_backend.testing import ApplicationProblems, OpenedApplication, open_application

Open = Callable[[Sequence[Kind[Any]]], Any]


class OldWord(Record):
    term: str
    note: str = ""


def upgraded(value: dict[str, Any]) -> dict[str, Any]:
    return {"word": value["term"]}


OLD_WORDS = Kind("word", OldWord, owner="application")
NEW_WORDS = replace(WORDS, version=2, upgrades={1: upgraded})


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    async with fresh_database(server_url(request.param, request)) as url:
        yield url


@pytest.fixture
def open_with(url: str, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens the application with these kinds of records, on the same database each time."""

    @asynccontextmanager
    async def open_(kinds: Sequence[Kind[Any]]) -> AsyncIterator[OpenedApplication[Notes]]:
        monkeypatch.setattr(Notes, "records", tuple(kinds))
        async with open_application(Notes, store=url) as opened:
            yield opened

    return open_


async def words_of(notes: Notes, kind: Kind[Any]) -> list[Any]:
    return [each.value for each in (await notes.records_of(kind).of_application().find()).records]


async def test_calls_keep_records_of_their_users(open_with: Open) -> None:
    async with open_with(Notes.records) as opened, opened.client("ann") as ann, opened.client("bob") as bob:
        for number in range(3):
            kept = (await ann.post("/notes", json={"text": f"{number}", "topic": "a"})).json()
        page = (await ann.get("/notes?topic=a")).json()
        rest_of = (await ann.get(f"/notes?topic=a&cursor={page['next_cursor']}")).json()
        assert sorted(page["texts"] + rest_of["texts"]) == ["0", "1", "2"] and rest_of["next_cursor"] is None
        assert (await bob.get("/notes?topic=a")).json()["texts"] == []
        assert "ann: 2" in (await bob.get("/all?topic=a")).json()["texts"]
        refused = {
            "bad_frame": await ann.get("/notes?topic=a&cursor=x"),
            "not_found": await bob.delete(f"/notes/{kept['key']}"),
            "session_not_found": await ann.post("/sessions/absent/comments", json={"text": ""}),
        }
        for code, answer in refused.items():
            assert error_of(answer)["code"] == code
        assert (await ann.delete(f"/notes/{kept['key']}")).status_code == 204
    async with open_with(Notes.records) as opened, opened.client("ann") as ann:
        assert len((await ann.get("/notes?topic=a")).json()["texts"]) == 2


async def test_records_are_upgraded_and_their_indexes_built_again(open_with: Open) -> None:
    async with open_with([OLD_WORDS]) as opened:
        old = opened.application.records_of(OLD_WORDS).of_application()
        for number in range(120):
            await old.add(OldWord(term=f"{number:03}"))
    async with open_with([NEW_WORDS]) as opened:
        words = opened.application.records_of(NEW_WORDS).of_application()
        found = await words.find("by_word", at_least="117")
        assert [each.value.word for each in found.records] == ["117", "118", "119"]
        rows = await opened.app.store.outdated_application_records("notes:word", 3, "", 200, of_session=False)
        assert {(row.version, *row.value) for row in rows} == {(2, "word", "meaning")} and len(rows) == 120
        # One that an instance of the release before has written since.
        stale = replace(rows[0], id="notes:word  6b", key="k", version=1, value={"term": "late", "note": ""}, layout="")
        stale = replace(stale, unique_1="u1", unique_2="u2", revision=1)
        await opened.app.store.write_application_records([RecordWrite(stale, most=1_000)])
        assert (await words.get("k")).value == Word(word="late")
        [chore] = opened.app.host._hosted[0].upkeep()
        assert [await chore.work(50) for _ in range(2)] == [1, 0]
        assert len((await words.find("by_word", "late")).records) == 1


async def test_an_older_application_refuses_newer_records_in_words(
    open_with: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_with([NEW_WORDS]) as opened:
        await opened.application.records_of(NEW_WORDS).of_application().add(Word(word="w"))
    with pytest.raises(ApplicationProblems, match="does not start"):
        async with open_with([WORDS, NOTES]):
            pass
    [line] = [vars(record) for record in caplog.records if record.message == "application failed"]
    assert line["step"] == "records"
    assert "notes:word has version 2, and this application knows versions up to 1: run the newer" in line["error"]
    async with open_with([NEW_WORDS]) as opened:
        assert await words_of(opened.application, NEW_WORDS) == [Word(word="w")]


def unreadable(value: dict[str, Any]) -> dict[str, Any]:
    return {"other": 1}


def raising(value: dict[str, Any]) -> dict[str, Any]:
    raise SystemExit("hunter2")


@pytest.mark.parametrize(
    "kind",
    [
        replace(NEW_WORDS, upgrades={1: unreadable}),
        replace(NEW_WORDS, upgrades={1: raising}),
        replace(OLD_WORDS, indexes={"by_note": Index("note", unique=True)}),
    ],
    ids=["unreadable", "raising", "not unique"],
)
async def test_an_upgrade_that_fails_keeps_the_application_from_serving(
    open_with: Open, kind: Kind[Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_with([OLD_WORDS]) as opened:
        words = opened.application.records_of(OLD_WORDS).of_application()
        for number in range(3):
            await words.add(OldWord(term=f"{number}", note="same"))
    with pytest.raises(ApplicationProblems, match="does not start"):
        async with open_with([kind]):
            pass
    lines = [vars(record) for record in caplog.records if record.message == "application failed"]
    assert [line["step"] for line in lines] == ["records"] and "hunter2" not in str(lines)
    # Nothing is lost.
    async with open_with([OLD_WORDS]) as opened:
        assert len(await words_of(opened.application, OLD_WORDS)) == 3


async def test_records_are_kept_for_their_time(open_with: Open) -> None:
    short = replace(WORDS, keep_days=1)
    async with open_with([short]) as opened:
        words = opened.application.records_of(short).of_application()
        old = await words.add(Word(word="old"), "old")
        await words.add(Word(word="new"))
        at = old.updated_at - timedelta(days=1, minutes=1)
        await opened.app.store.write_application_records([RecordWrite(replace(old.row, revision=2, updated_at=at))])
        [chore] = opened.app.host._hosted[0].upkeep()
        assert [await chore.work(50) for _ in range(2)] == [1, 0]
        assert await words_of(opened.application, short) == [Word(word="new")]


async def test_what_a_user_kept_is_exported_and_deleted_to_the_last_byte(tmp_path: Path) -> None:
    marked = "anns marked word"
    async with running_server(tmp_path, settings={"applications": [{"class_path": PATH}]}) as server:
        headers = {"authorization": "Bearer dev:ann"}
        async with plain_http(base_url=f"{server.address}/apps/notes", headers=headers) as ann:
            assert (await ann.post("/notes", json={"text": marked, "topic": marked})).status_code == 201
            async with rest(server, "dev:ann") as client:
                exported = [json.loads(line) for line in (await client.get("/me/export")).text.splitlines()]
                [row] = [line["row"] for line in exported if line.get("table") == "application_records"]
                assert row["value"]["text"] == marked and row["kind"] == "notes:note"
                assert (await client.delete("/me")).status_code == 204
            assert (await ann.get(f"/notes?topic={marked}")).json()["texts"] == []
    [file] = tmp_path.rglob("chat.sqlite3")
    async with aclosing(await open_sqlite(file, 10)) as store:
        await store.erase()
    texts = [each.read_bytes() for each in tmp_path.rglob("chat.sqlite3*")]
    assert not any(marked.encode() in text or marked.encode().hex().encode() in text for text in texts)


class Moody(Record):
    text: str
    mood: str


class Odd(Record):
    list_of: list[str]
    text: str = ""


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ("note", "'records' has to be a list"),
        ([NOTES, "note"], "'records' has to be a list"),
        ([NOTES] * 2, "another kind has this name"),
        ([Kind("Note", Note)], "a kind of records needs a name"),
        ([Kind("note", dict)], "subclass of Record"),  # type: ignore[type-var]
        ([Kind("note", Note, owner="all")], "the owner"),  # type: ignore[arg-type]
        ([Kind("note", Note, version=2)], "a function for each earlier version"),
        ([Kind("note", Note, version=2, upgrades={2: upgraded})], "a function for each earlier version"),
        ([Kind("note", Note, version=0)], "a whole number from 1"),
        ([Kind("note", Note, keep_days=0)], "keep_days"),
        ([Kind("note", Note, most=0)], "'most'"),
        ([Kind("note", Note, indexes={"by_x": Index("x")})], "'x', which the model has not"),
        ([Kind("note", Odd, indexes={"by": Index("list_of")})], "its type is none of an index"),
        ([Kind("note", Odd, indexes={"By": Index("text")})], "the name of an index"),
        ([Kind("note", Odd, indexes={"by": Index()})], "1 to 3 fields"),
        ([Kind("note", Odd, indexes={"by": Index("text", "text")})], "1 to 3 fields"),
        ([Kind("note", Odd, indexes={f"by{n}": Index("text") for n in range(5)})], "may be 4 indexes"),
        ([Kind("note", Odd, indexes={f"by{n}": Index("text", unique=True) for n in range(3)})], "may be 2 indexes"),
        ([Kind("note", Note, words="text")], "'words' has to be Words"),  # type: ignore[arg-type]
        ([Kind("note", Note, words=Words())], "'words' needs 1 to 10 fields"),
        ([Kind("note", Note, words=Words("text", "text"))], "'words' needs 1 to 10 fields"),
        ([Kind("note", Note, words=Words("x"))], "'words' has 'x', which the model has not"),
        ([Kind("note", Note, words=Words("stars"))], "'words' can't hold 'stars': it is no text"),
        ([Kind("note", Note, words=Words("text", language="stars"))], "'words' can't hold 'stars': it is no text"),
        ([Kind("note", Odd, words=Words("text", within="list_of"))], "its type is none of an index"),
        ([Kind("note", Note, group="x")], "'group' has 'x', which the model has not"),
        ([Kind("note", Note, group="stars")], "'group' can't hold 'stars': it is no text"),
        ([Kind("note", Note, group="text")], "over all owners that begins with it"),
        ([Kind("note", Note, group="text", indexes={"by": Index("text")})], "over all owners that begins with it"),
        ([Kind("note", Odd, indexes=["text"])], "'indexes' has to be"),  # type: ignore[arg-type]
        ([Kind("note", Note, vectors=Words("text"))], "'vectors' has to be Vectors"),  # type: ignore[arg-type]
        ([Kind("note", Note, vectors=Vectors())], "'vectors' needs 1 to 10 fields"),
        ([Kind("note", Note, vectors=Vectors("text", "x"))], "'vectors' has 'x', which the model has not"),
        ([Kind("note", Odd, vectors=Vectors("list_of", within="list_of"))], "its type is none of an index"),
        ([Kind("note", Note, words=Words("text"), vectors=Vectors("text", within="topic"))], "within the same field"),
    ],
)
def test_an_odd_declaration_is_refused_with_its_kind(kinds: object, said: str) -> None:
    with pytest.raises(ClassPathError, match=said):
        declared_records("notes", kinds)


def test_sound_declarations_are_taken() -> None:
    layouts = declared_records("notes", Notes.records)
    assert [layout.id for layout in layouts] == ["notes:note", "notes:comment", "notes:word"]
    assert layouts[1].of_session and COMMENTS.append_only
    assert declared_records("notes", [WORDS])[0].stamp == layouts[2].stamp
    with_more = replace(WORDS, indexes={**WORDS.indexes, "more": Index("word")})
    assert declared_records("notes", [with_more])[0].stamp != layouts[2].stamp
    by_words = replace(NOTES, words=Words("text", within="topic", language="slug"))
    stamps = {
        declared_records("notes", [replace(NOTES, words=words)])[0].stamp
        for words in (None, by_words.words, Words("text"), Words("text", within="topic"), Words("topic"))
    }
    assert len(stamps) == 5 and layouts[0].stamp in stamps
    by_vectors = {
        declared_records("notes", [replace(NOTES, vectors=vectors, words=words)])[0].stamp
        for vectors in (Vectors("text"), Vectors("text", within="topic"), Vectors("slug", within="topic"))
        for words in (None, Words("text", within=vectors.within))
    }
    # What vectors are of makes no difference to how they are found.
    assert len(by_vectors) == 4 and not by_vectors & stamps
    by_mood = Kind("note", Note, words=Words("text", within="mood"))
    otherwise = Kind("note", Moody, words=by_mood.words)
    assert declared_records("notes", [by_mood])[0].stamp != declared_records("notes", [otherwise])[0].stamp


def test_vectors_need_what_is_installed_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vectors", "vector_index"):
        monkeypatch.delitem(sys.modules, f"agentic_backend.records.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert declared_records("notes", Notes.records)
    with pytest.raises(ClassPathError, match=r"the kind 'note' .* install agentic-backend\[vectors\]"):
        declared_records("notes", [Kind("note", Note, vectors=Vectors("text"))])


def test_no_record_is_reached_before_the_start() -> None:
    class Early(Application):
        id, title, version = "early", "Early", "1"

    with pytest.raises(Exception, match="'Early' is not available"):
        Early(None).records_of(NOTES)
