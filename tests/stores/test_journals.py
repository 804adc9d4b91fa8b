"""The journal of deletions: what is noted outlives everything, and what can't be noted is refused."""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url

from agentic_backend.config.settings import Settings
from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.journal.deletion import Deletion, deletion_in, new_deletion
from agentic_backend.stores.journal.file_journal import FileJournal
from agentic_backend.stores.journal.journal import Journal, JournalUnavailable
from agentic_backend.stores.journal.mongo_journal import MongoJournal
from agentic_backend.stores.opening import CannotOpenStore, open_journal, open_store

OpenJournal = Callable[[], Awaitable[Journal]]
AT = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)


@pytest.fixture(params=["files", *ON_MONGODB])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "journal") if request.param == "files" else server_url(request.param, request)


@pytest.fixture
async def open_(place: str) -> AsyncIterator[OpenJournal]:
    opened: list[Journal] = []

    async def open_one(url: str) -> Journal:
        journal = await open_journal(Settings.model_validate({"deletions": {"journal": url}}))
        assert journal is not None
        opened.append(journal)
        return journal

    if place.startswith("mongodb"):
        async with fresh_database(place) as url:
            yield lambda: open_one(url)
            for journal in opened:
                await journal.aclose()
    else:
        yield lambda: open_one(place)
        for journal in opened:
            await journal.aclose()


def a_deletion(name: str, *, days: int = 0) -> Deletion:
    return new_deletion("session", (name,), AT + timedelta(days=days))


async def all_of(journal: Journal, since: datetime | None = None) -> list[Deletion]:
    found = [each async for batch in journal.batches(since) for each in batch]
    return sorted((each for each in found if since is None or each.at >= since), key=lambda each: each.at)


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl"))


async def test_two_instances_share_one(place: str, open_: OpenJournal) -> None:
    first, second = await open_(), await open_()
    assert isinstance(first, MongoJournal if place.startswith("mongodb") else FileJournal)
    await first.check()
    assert await first.journal_id() is None
    noted = [a_deletion(f"{number}", days=number) for number in range(4)]
    for number, deletion in enumerate(noted):
        await (first, second)[number % 2].append([deletion])
    assert await all_of(await open_()) == noted
    assert await all_of(first, noted[2].at) == noted[2:]
    assert await first.journal_id() == await second.journal_id() is not None
    # The first one is of another month.
    await first.prune(AT + timedelta(hours=1))
    assert await all_of(second) == noted[1:]
    await first.prove()
    assert await all_of(second) == noted[1:]


@pytest.mark.parametrize(
    "deletion",
    [
        a_deletion("größe"),
        new_deletion("attachments", ("a", "b"), AT, only_unsent=True),
        new_deletion("application_records", ("a",), AT, within="notes:note 61 "),
    ],
)
def test_a_deletion_is_one_line(deletion: Deletion) -> None:
    assert "\n" not in deletion.line and deletion_in(deletion.line) == deletion


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "[]", "7", "[" * 100_000,
        '{"id": "a", "at": "2026-01-31T00:00:00Z", "kind": "planet", "ids": []}',
        '{"id": "a", "at": "2026-01-31T00:00:00", "kind": "session", "ids": []}',
        '{"id": "a", "at": "today", "kind": "session", "ids": []}',
        '{"id": "a", "at": "2026-01-31T00:00:00Z", "kind": "session", "ids": [7]}',
        '{"id": "a", "at": "2026-01-31T00:00:00Z", "kind": "session", "ids": [], "within": 7}',
    ],
)  # fmt: skip
def test_another_line_is_none(line: str) -> None:
    assert deletion_in(line) is None


async def test_a_torn_line_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, torn, last = (a_deletion(name) for name in ("first", "torn", "last"))
    text = f"{first.line}\n{torn.line[:40]}\n\n\0\0{last.line}\n{last.line}\n{torn.line[:9]}"
    await asyncio.to_thread((tmp_path / "2026-01.a.jsonl").write_text, text)
    assert await all_of(FileJournal(tmp_path, 5)) == [first, last]
    told = [record.__dict__["line"] for record in caplog.records]
    assert told == [2, 4, 6]


async def test_a_note_that_fails_is_taken_back_and_the_next_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = FileJournal(tmp_path, 5)
    await journal.append([a_deletion("first")])
    written = os.write

    def full(descriptor: int, lines: bytes) -> int:
        written(descriptor, lines[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("agentic_backend.stores.journal.file_journal.os.write", full)
        with pytest.raises(StoreUnavailable, match="can't be noted in the journal, so nothing was deleted"):
            await journal.append([a_deletion("refused")])
    await journal.append([a_deletion("last")])
    assert {each.ids[0] for each in await all_of(journal)} == {"first", "last"}
    texts = [await asyncio.to_thread(file.read_bytes) for file in await asyncio.to_thread(files, tmp_path)]
    assert len(texts) == 2 and all(text.count(b"\n") == 1 and text.endswith(b"\n") for text in texts)
    await journal.aclose()


async def test_what_somebody_moves_away_is_made_anew(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, 5)
    await journal.append([a_deletion("first")])
    for file in await asyncio.to_thread(files, tmp_path):
        await asyncio.to_thread(file.unlink)
    await journal.append([a_deletion("second")])
    assert [each.ids for each in await all_of(journal)] == [("second",)]
    await journal.aclose()


async def test_the_files_are_the_servers_own_and_hold_ids_alone(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "journal", 5)
    await journal.append([a_deletion("first")])
    await journal.aclose()
    made = await asyncio.to_thread(lambda: [tmp_path / "journal", *(tmp_path / "journal").iterdir()])
    assert len(made) == 3
    assert {stat.S_IMODE((await asyncio.to_thread(path.stat)).st_mode) for path in made} == {0o700, 0o600}


async def test_a_server_does_not_start_without_the_journal_that_it_is_told(tmp_path: Path) -> None:
    given = {"data": {"directory": str(tmp_path)}, "store": {"timeout_s": 1}}
    settings = Settings.model_validate({**given, "deletions": {"journal": "mongodb://ann:s3cret@127.0.0.1:1/j"}})
    with pytest.raises(CannotOpenStore, match=r"deletions.journal: mongodb://127.0.0.1:1/j: no server answers"):
        await open_store(settings, lambda *_: None)


async def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "file").touch)
    journal = FileJournal(tmp_path / "file" / "journal", 5)
    with pytest.raises(StoreUnavailable):
        await journal.append([a_deletion("a")])
    for look in (journal.journal_id(), journal.check()):
        with pytest.raises(JournalUnavailable, match="file"):
            await look


@pytest.mark.parametrize(
    ("journal", "store", "found"),
    [("auto", None, "deletions"), ("auto", "mongodb://host/chat", None), (None, None, None), ("mine", None, "mine")],
)
async def test_where_it_is_by_the_settings(journal: str | None, store: str | None, found: str | None) -> None:
    settings = Settings.model_validate({"deletions": {"journal": journal}, "store": {"url": store}})
    opened = await open_journal(settings)
    assert found == (None if opened is None else opened.place.removeprefix("data/"))
