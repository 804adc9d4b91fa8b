"""What was deleted after a backup does not live again once the backup is restored, and nothing else goes."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import fresh_database
from support.backups import Backups, MongoBackups, SqliteBackups

from agentic_backend.errors import LimitReached, RecordConflict, SessionBusy, StoreUnavailable
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.base import Store
from agentic_backend.stores.journal.file_journal import FileJournal
from agentic_backend.stores.journal.journaled_store import JournaledStore
from agentic_backend.stores.journal.redeletion import Redeletion
from agentic_backend.stores.journal.upkeep import JournalUpkeep
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.protocol.application_records import RecordWrite
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.stores.protocol.trail import FeedbackRecord, ShareRecord, SummaryRecord
from agentic_backend.stores.protocol.user_rows import hidden_name
from agentic_backend.stores.records import SessionRecord, UserDeletion
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.tables import ITEMS, SESSIONS, TABLES, USAGE
from tests.stores.samples import (
    EPOCH,
    a_branch,
    a_checkpoint,
    a_kpi,
    a_pause,
    a_record,
    a_session,
    added,
    an_attachment,
    an_end,
    an_item,
    answer,
    begin,
    in_pieces,
    new_id,
    run_exchanges,
)
from tests.stores.trail_samples import a_feedback, a_usage, one_of_each

GONE, STAYS = "quokka", "wombat"
IDS = {GONE: "1", STAYS: "2"}
"""Ids are left behind: of KPI records, say."""


@dataclass
class Site:
    """A database with its journal and its backups."""

    open_: Callable[[], Awaitable[Store]]
    journal: FileJournal
    backups: Backups
    file: Path

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """The store as a server has it, after its start."""
        store = JournaledStore(await self.open_(), self.journal)
        try:
            await upkeep(store).catch_up()
            # A wrapper is no store to mypy: it takes most operations from one.
            as_store: Any = store
            yield as_store
        finally:
            await store.aclose()


def upkeep(store: JournaledStore, **options: Any) -> JournalUpkeep:
    return JournalUpkeep(store, 400, lambda: None, **options)


@pytest.fixture
async def site(kind: str | None, tmp_path: Path) -> AsyncIterator[Site]:
    data, kept = tmp_path / "data", tmp_path / "kept"
    for directory in (data, kept):
        await asyncio.to_thread(directory.mkdir)
    file = data / "store.db"
    async with AsyncExitStack() as stack:
        url = None if kind is None else await stack.enter_async_context(fresh_database(kind))

        async def open_() -> Store:
            if url is None:
                return await SqliteStore.open(file, timeout_s=10)
            return await MongoStore.open(url, timeout_s=10)

        backups: Backups = SqliteBackups(file, kept) if url is None else MongoBackups(url)
        yield Site(open_, FileJournal(tmp_path / "journal", 10), backups, file)


ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
"""For what is above the stores."""


async def talk(store: Store, session_id: str, word: str, user_id: str = "ann") -> None:
    """A session with rows of each kind, all with the word."""
    session = a_session(user_id, id=session_id, title=word)
    await store.create_session(session)
    fence = await begin(store, session)
    end = an_end(kpi=a_kpi(user_id, exchange_id=fence.exchange_id), session_state=word.encode())
    await store.append(fence, [answer(word)], end, trail=one_of_each(session_id, user_id, word))


async def remember(store: Store, session_id: str, word: str, *, waits: bool = False) -> None:
    """A session whose agents alone have the word; an exchange waits in it, if so."""
    session = a_session(id=session_id)
    await store.create_session(session)
    fence = await begin(store, session)
    written = await store.append(fence, [answer()], an_end(session_state=word.encode()))
    summary = SummaryRecord(
        id=new_id(), at=EPOCH, session_id=session_id, user_id="ann", from_rank=0, to_rank=2, text=word, tokens=1,
        model="scripted", chat_profile="default",
    )  # fmt: skip
    assert await store.keep_summary(summary, written.session) is not None
    if waits:
        await store.set_waiting(
            await begin(store, session, owner="one"), a_pause(checkpoint=a_checkpoint(word.encode()))
        )


async def add_file(store: Store, name: str, word: str, user_id: str = "ann") -> None:
    content = word.encode()
    await store.add_attachment(an_attachment(content, user_id, id=name, text=word), in_pieces(content), 10_000)


async def fill(store: Store, word: str, user_id: str = "ann") -> None:
    """Something of each kind that can be deleted alone, with the word in it and in its id."""
    await talk(store, f"talk {IDS[word]}", word, user_id)
    await add_file(store, f"sent {IDS[word]}", word, user_id)
    await store.attach([f"sent {IDS[word]}"], user_id, f"talk {IDS[word]}")
    await add_file(store, f"unsent {IDS[word]}", word, user_id)
    await store.put_items([an_item("a", IDS[word], f'"{word}"', owner=user_id)], [], ItemBounds())
    await store.open_application_records()
    own = (
        a_record(f"note-{IDS[word]}", user_id, value={"text": word}),
        a_record(
            f"inner-{IDS[word]}",
            user_id,
            session_id="shared",
            id=f"notes:note shared inner-{IDS[word]}",
            value={"text": word},
        ),
    )
    await store.write_application_records(added(*own))
    said = {"session_id": "shared", "user_id": user_id}
    await store.add_trail(
        [
            a_feedback(id=f"said {IDS[word]}", comment=word, **said),
            ShareRecord(
                id=f"share {IDS[word]}", at=EPOCH, up_to_rank=2, expires_at=utc_now() + timedelta(days=9), **said
            ),
        ]
    )


async def delete_all(store: Store, word: str) -> None:
    """All of that, one by one, as its owner does."""
    await store.remove_attachments([f"unsent {IDS[word]}"], only_unsent=True)
    await store.remove_attachments([f"sent {IDS[word]}"])
    await store.delete_session(f"talk {IDS[word]}")
    [item] = [each for each in await store.page(ITEMS, None, 99) if each.key == IDS[word]]
    await store.put_items([], [item.id], ItemBounds())
    for of_session, ids in (
        (False, [f"notes:note ann note-{IDS[word]}"]),
        (True, [f"notes:note shared inner-{IDS[word]}"]),
    ):
        [record] = await store.get_application_records(ids, of_session=of_session)
        await store.write_application_records([RecordWrite(record, is_removal=True)])
    await store.remove_trail(FeedbackRecord, f"said {IDS[word]}")
    await store.remove_trail(ShareRecord, f"share {IDS[word]}")


async def rows(store: Store, **whose: str) -> dict[str, int]:
    """How many rows there are, by table."""
    found = [table for table in TABLES if table.name != "journal_marks" and (not whose or table.user is not None)]
    return {table.name: len(await store.page(table, None, 1_000, **whose)) for table in found}


async def forget_user(store: Store, user_id: str) -> None:
    await store.keep_deletion(UserDeletion(user_id=user_id, at=store.now(), until=store.now()))


async def test_nothing_that_was_deleted_lives_again_and_all_else_does(site: Site) -> None:
    async with site.opened() as store:
        await store.create_session(a_session(id="shared"))
        await fill(store, STAYS)
        await remember(store, "not reset", STAYS)
        before = await rows(store)
        await fill(store, GONE)
        await remember(store, "reset", GONE)
        await remember(store, "waited", GONE, waits=True)
        await talk(store, "bob's", GONE, "bob")
        # Written before the clock was set back.
        ahead = {"title": GONE, "updated_at": store.now() + timedelta(days=1)}
        await store.create_session(a_session("bob", id="bob's ahead", **ahead))
        await store.create_session(a_session(id="ahead", **ahead))
        await add_file(store, "bob's file", GONE, "bob")
        await store.put_items([an_item("a", "k", f'"{GONE}"', owner="bob")], [], ItemBounds())
        await store.write_application_records(added(a_record("bob's", "bob", value={"text": GONE})))
    await site.backups.save()
    assert await site.backups.holders_of(GONE)
    async with site.opened() as store:
        await delete_all(store, GONE)
        await store.delete_session("ahead")
        fence = await store.fence("waited")
        assert fence is not None
        await store.append(fence, [], an_end())
        for session_id in ("reset", "waited"):
            await store.reset_state(session_id)
        await forget_user(store, "bob")

    await site.backups.restore()
    async with site.opened() as store:
        assert set((await rows(store, user_id="bob")).values()) == {0}
        for session_id in ("reset", "waited"):
            reset = await store.get_session(session_id)
            assert reset is not None and reset.active_exchange_id is None and reset.reset_rank == reset.next_rank > 0
        after = await rows(store)
        # What the sessions have that were reset, and what outlives sessions and users.
        assert {name for name, count in after.items() if count != before[name]} == {
            "sessions", "exchanges", "messages", "kpi_records", "usage", "module_errors", "admin_reads",
        }  # fmt: skip
        assert after["sessions"] == before["sessions"] + 2
        assert b"".join([piece async for piece in store.attachment_content(f"sent {IDS[STAYS]}")]) == STAYS.encode()
    assert await site.backups.holders_of(GONE) == []
    assert await site.backups.holders_of(STAYS)


async def test_what_was_made_since_stays(site: Site) -> None:
    """Under the same ids, by people who come back after they have deleted all."""
    async with site.opened() as store:
        await fill_again(store, GONE)
        await store.create_session(a_session("bob", id="bob's old"))
        await delete_again(store)
        await forget_user(store, "bob")
        await store.delete_session("bob's old")
        await fill_again(store, STAYS, at=store.now())
        await store.reset_state("goes on")
        fence = await begin(store, await session_of(store, "goes on"))
        await store.append(fence, [answer()], an_end(session_state=STAYS.encode()))
        await store.create_session(a_session("bob", id="bob's new", created_at=store.now(), updated_at=store.now()))
        await store.record_kpi(a_kpi("bob", started_at=store.now()))
        before = await rows(store), await rows(store, user_id="bob")
        # As a database that knows nothing of the journal, such as one of an older release.
        done = await redelete(store)
        assert (await rows(store), await rows(store, user_id="bob")) == before
        assert done == {}
        assert await store.session_state("goes on") == STAYS.encode()


async def fill_again(store: Store, word: str, at: datetime = EPOCH) -> None:
    """What may be made again with the same id: an item, a record, feedback; and files of a session that goes on."""
    if await store.get_session("goes on") is None:
        await store.create_session(a_session(id="goes on"))
    await store.put_items([replace(an_item("a", "k", f'"{word}"'), updated_at=at)], [], ItemBounds())
    await store.open_application_records()
    await store.write_application_records(
        added(replace(a_record("k", value={"text": word}), created_at=at, updated_at=at))
    )
    await store.add_trail([a_feedback("goes on", id="said", comment=word, at=at)])


async def delete_again(store: Store) -> None:
    await store.put_items([], [an_item("a", "k").id], ItemBounds())
    [record] = await store.get_application_records(["notes:note ann k"], of_session=False)
    await store.write_application_records([RecordWrite(record, is_removal=True)])
    await store.remove_trail(FeedbackRecord, "said")


async def redelete(store: Any, **options: Any) -> dict[str, int]:
    """All that the journal has, on this database."""
    return (await Redeletion(store.store, store.journal, lambda: None, **options).run(None)).counts


async def test_what_was_refused_stays_in_a_restored_backup(site: Site) -> None:
    async with site.opened() as store:
        await store.create_session(a_session(id="busy"))
        await store.open_application_records()
        await store.write_application_records(added(a_record("k")))
        await add_file(store, "sent", STAYS)
        await store.put_items([an_item("a", "k"), an_item("a", "l")], [], ItemBounds())
    await site.backups.save()
    async with site.opened() as store:
        [record] = await store.get_application_records(["notes:note ann k"], of_session=False)
        with pytest.raises(RecordConflict):
            await store.write_application_records([RecordWrite(replace(record, revision=7), is_removal=True)])
        await store.attach(["sent"], "ann", "busy")
        assert await store.remove_attachments(["sent"], only_unsent=True) == []
        with pytest.raises(LimitReached):
            await store.put_items([an_item("a", f"{n}") for n in range(3)], [an_item("a", "k").id], ItemBounds(items=2))
        await begin(store, await session_of(store, "busy"))
        with pytest.raises(SessionBusy):
            await store.reset_state("busy")
    await site.backups.restore()
    async with site.opened() as store:
        assert await redelete(store) == {}
        assert len(await store.get_application_records([record.id], of_session=False)) == 1
        assert len(await store.get_attachments(["sent"])) == 1
        assert len(await store.page(ITEMS, None, 9)) == 2
        assert (await session_of(store, "busy")).reset_rank is None


async def session_of(store: Store, session_id: str) -> SessionRecord:
    session = await store.get_session(session_id)
    assert session is not None
    return session


async def test_costs_of_a_deleted_user_stay_for_budgets_alone(site: Site) -> None:
    async with site.opened() as store:
        await store.add_trail([a_usage("bob"), a_usage("bob", at=store.now() + timedelta(days=1), id="later")])
        await forget_user(store, "bob")
        as_journaled: Any = store
        await Redeletion(as_journaled.store, site.journal, lambda: EPOCH).run(None)
        found = await store.page(USAGE, None, 9)
        assert sorted(each.user_id for each in found) == ["bob", hidden_name("bob")]
        assert all((each.session_id is None) == (each.user_id != "bob") for each in found)


async def test_a_file_that_came_with_a_later_backup_of_the_contents_goes(site: Site) -> None:
    async with site.opened() as store:
        await site.backups.save()
        await add_file(store, "file", GONE)
        # Without its row, as in a backup of the rows that is older.
        await store.remove_attachments(["file"])
        raw: Any = store
        await raw.store.add_attachment(an_attachment(b"quokka", id="file"), in_pieces(b"quokka"), 10_000)
        await raw.store._delete_attachments(["file"])
        assert await site.backups.holders_of(GONE)
        await redelete(store)
    assert await site.backups.holders_of(GONE) == []


@ON_SQLITE
async def test_a_dry_run_says_what_would_go_and_changes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site.opened() as store:
        await store.create_session(a_session(id="shared"))
        await fill(store, GONE)
    await site.backups.save()
    async with site.opened() as store:
        await delete_all(store, GONE)
    await site.backups.restore()
    raw = await site.open_()
    store, erased, erase = JournaledStore(raw, site.journal), 0, raw.erase

    async def counted() -> None:
        nonlocal erased
        erased += 1
        await erase()

    # Where SQLite is built to overwrite what it deletes, the file alone doesn't show it.
    monkeypatch.setattr(raw, "erase", counted)
    before = await rows(raw)
    assert before["user_deletions"] == 0
    would = await redelete(store, dry_run=True)
    assert await rows(raw) == before and not erased
    assert would == await redelete(store)
    assert await redelete(store) == {} and erased == 1
    assert await raw.deletions() == []
    assert would == {"attachments": 2, "sessions": 1, "items": 1, "records": 2, "feedback": 1, "shares": 1}
    await store.aclose()


@ON_SQLITE
async def test_a_file_that_was_not_packed_is_left_to_housekeeping(site: Site) -> None:
    async with site.opened() as store:
        await store.create_session(a_session(id="goes"))
        await site.backups.save()
        await store.delete_session("goes")
    await site.backups.restore()
    raw = await site.open_()
    store_: Any = JournaledStore(raw, site.journal)
    with patched(raw, "erase", StoreUnavailable):
        assert await redelete(store_) == {"sessions": 1}
    # As one of a user whose rows are gone: see UserDeletions.
    assert [each.is_over for each in await raw.deletions()] == [True]
    await raw.aclose()


@ON_SQLITE
async def test_a_branch_that_people_went_on_in_keeps_its_session(site: Site) -> None:
    """The store may have failed at the deletion, of which its owner was told."""
    async with site.opened() as store:
        root = a_session(id="root")
        await store.create_session(root)
        await run_exchanges(store, root, 1)
        site_of: Any = store
        with patched(site_of.store, "delete_session", StoreUnavailable), pytest.raises(StoreUnavailable):
            await store.delete_session("root")
        branch = await store.fork_session(a_branch(await session_of(store, "root"), 2), None)
        assert branch is not None
        await run_exchanges(store, branch, 1)
        assert await redelete(store) == {}


@contextmanager
def patched(target: Any, name: str, error: type[Exception]) -> Iterator[None]:
    async def fails(*args: object, **options: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, name, fails)
        yield


@ON_SQLITE
async def test_a_deletion_that_cannot_be_noted_is_refused_and_nothing_is_done(site: Site) -> None:
    async with site.opened() as store:
        await store.create_session(a_session(id="shared"))
        await fill(store, STAYS)
        before = await rows(store)
        with patched(site.journal, "append", StoreUnavailable):
            for deletion in (
                lambda: store.delete_session("talk 2"),
                lambda: store.reset_state("talk 2"),
                lambda: store.remove_attachments(["unsent 2"]),
                lambda: store.put_items([], [an_item("a", "2").id], ItemBounds()),
                lambda: store.remove_trail(FeedbackRecord, "said 2"),
                lambda: forget_user(store, "ann"),
            ):
                with pytest.raises(StoreUnavailable):
                    await deletion()
        assert await rows(store) == before
        assert (await session_of(store, "talk 2")).reset_rank is None


async def dies(site: Site, what: str) -> int:
    """What `support.dying_deletion` does; its exit status."""
    command = [sys.executable, "-m", "support.dying_deletion", str(site.file), site.journal.place, what]
    process = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[1])
    return await process.wait()


@ON_SQLITE
async def test_a_process_that_dies_is_no_loss(site: Site) -> None:
    """It dies between the note and the deletion, and in the middle of doing the deletions again."""
    async with site.opened() as store:
        for name in ("first", "second", "stays"):
            await talk(store, name, STAYS if name == "stays" else GONE)
    await site.backups.save()
    async with site.opened() as store:
        await store.delete_session("first")
    assert await dies(site, "second") == -signal.SIGKILL
    await site.backups.restore()
    assert await dies(site, "again") == -signal.SIGKILL
    raw = await site.open_()
    assert len(await raw.page(SESSIONS, None, 9)) == 2
    await raw.aclose()
    async with site.opened() as store:
        assert [each.id for each in await store.page(SESSIONS, None, 9)] == ["stays"]
    assert await site.backups.holders_of(GONE) == []


@ON_SQLITE
async def test_only_a_restored_database_is_looked_at_from_its_mark_on(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [utc_now()]
    store = JournaledStore(await SqliteStore.open(site.file, timeout_s=10, wall=lambda: clock[0]), site.journal)
    kept: Any = store

    async def later(hours: int) -> None:
        clock[0] += timedelta(hours=hours)

    await kept.create_session(a_session(id="a"))
    await store.delete_session("a")
    assert (await upkeep(store).catch_up()).looked_at == 1
    await later(5)
    await upkeep(store).catch_up()
    await later(5)
    await site.backups.save()
    await store.delete_session("b")
    at_work = upkeep(store)
    assert (await at_work.catch_up()).looked_at == 1, "not the first one, which is long done"
    await later(5)
    await at_work._look()
    assert (await upkeep(store).catch_up()).looked_at == 0
    # Beneath the running server.
    await site.backups.restore()
    assert "deletions done again" not in caplog.text
    await kept.store.create_session(a_session(id="b"))
    await at_work._look()
    assert await kept.get_session("b") is None
    assert "deletions done again" in caplog.text
    await store.aclose()


@ON_SQLITE
async def test_a_lost_journal_is_told(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site.opened() as store:
        await store.delete_session("a")
    async with site.opened():
        assert "another one" not in caplog.text
    site.journal = FileJournal(tmp_path / "other", 10)
    async with site.opened():
        assert "deletion journal is another one" in caplog.text


def test_each_operation_that_deletes_is_noted_or_is_known_not_to_need_it() -> None:
    """See JournaledStore for the reasons."""
    names = {name for name in dir(Store) if not name.startswith("_")}
    deleting = {
        name for name in names if any(word in name for word in ("delete", "remove", "forget", "reset", "erase"))
    }
    noted = {name for name in vars(JournaledStore) if not name.startswith("_")} - {"aclose", "prove_deletion"}
    assert noted <= names
    assert deleting - noted == {
        "delete_old", "delete_application_records", "delete_hidden_usage", "delete_user_rows", "sessions_to_delete",
        "erase", "forget_agent", "forget_contents", "forget_instance", "forget_pieces",
    }  # fmt: skip
    assert noted - deleting == {"keep_deletion", "put_items", "write_application_records"}
