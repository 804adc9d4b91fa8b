"""What every store does with attachments, whichever database is beneath it."""

import asyncio
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from agentic_backend.errors import AttachmentNotFound, LimitReached
from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.records import AttachmentRecord, AttachmentState
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.tables import ATTACHMENTS
from agentic_backend.stores.transfer import transfer
from tests.stores.conftest import OpenStore
from tests.stores.samples import CONTENT, EPOCH, a_session, an_attachment, in_pieces

ROOM = 10_000_000


async def add(store: Store, attachment: AttachmentRecord, content: bytes = CONTENT) -> AttachmentRecord:
    return await store.add_attachment(attachment, in_pieces(content), ROOM)


async def content_of(store: Store, attachment_id: str) -> bytes:
    return b"".join([piece async for piece in store.attachment_content(attachment_id)])


async def is_gone(store: Store, tmp_path: Path, *ids: str) -> bool:
    """Whether no row, no content and no file is left of these."""
    for attachment_id in ids:
        with pytest.raises(AttachmentNotFound):
            await content_of(store, attachment_id)
    rows = [row for row in await store.page(ATTACHMENTS, None, 100) if row.id in ids]
    if isinstance(store, MongoStore):
        among = {"files_id": {"$in": list(ids)}}
        chunks = await store.driver.run("test", lambda db: db["attachments.chunks"].count_documents(among))
        return not rows and not chunks
    files = await asyncio.to_thread(lambda: list(tmp_path.rglob("*")))
    return not rows and not [file for file in files if file.name.partition(".")[0] in ids]


async def test_an_attachment_is_kept_as_it_was_sent(store: Store, open_store: OpenStore) -> None:
    given = an_attachment(text="what it says\0")
    kept = await add(store, given)
    assert kept == replace(given, state=AttachmentState.KEPT)
    other = await open_store()
    assert await other.get_attachments([given.id, "absent"]) == [kept]
    assert await content_of(other, given.id) == CONTENT


@pytest.mark.parametrize("size", [1, 255 * 1024, 255 * 1024 + 1])
async def test_every_size_comes_back(store: Store, size: int) -> None:
    content = CONTENT[:size]
    kept = await add(store, an_attachment(content), content)
    assert await content_of(store, kept.id) == content


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    assert await store.get_attachments(["absent"]) == []
    with pytest.raises(AttachmentNotFound):
        await content_of(store, "absent")
    assert await store.remove_attachments(["absent"]) == []


async def test_a_user_has_no_more_than_the_room(store: Store, tmp_path: Path) -> None:
    first = await add(store, an_attachment())
    second = an_attachment()
    with pytest.raises(LimitReached, match="2,047,999 bytes"):
        await store.add_attachment(second, in_pieces(CONTENT), 2 * len(CONTENT) - 1)
    assert await is_gone(store, tmp_path, second.id)
    await store.add_attachment(an_attachment(user_id="bob"), in_pieces(CONTENT), len(CONTENT))
    await store.remove_attachments([first.id])
    await store.add_attachment(second, in_pieces(CONTENT), len(CONTENT))


async def test_uploads_at_once_together_keep_to_the_room(store: Store) -> None:
    room = 3 * len(CONTENT)
    adding = [store.add_attachment(an_attachment(), in_pieces(CONTENT), room) for _ in range(8)]
    outcomes = await asyncio.gather(*adding, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {AttachmentRecord, LimitReached}
    kept = [row for row in await store.page(ATTACHMENTS, None, 100) if row.state is AttachmentState.KEPT]
    assert len(kept) <= 3
    assert len(kept) == sum(isinstance(outcome, AttachmentRecord) for outcome in outcomes)


async def test_a_broken_upload_leaves_nothing(store: Store, tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield CONTENT
        raise ConnectionResetError

    given = an_attachment()
    with pytest.raises(ConnectionResetError):
        await store.add_attachment(given, broken(), ROOM)
    assert await is_gone(store, tmp_path, given.id)


async def test_an_upload_that_was_given_up_leaves_nothing(store: Store, tmp_path: Path) -> None:
    started = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield CONTENT
            started.set()
            await asyncio.Event().wait()

    given = an_attachment()
    adding = asyncio.create_task(store.add_attachment(given, endless(), ROOM))
    await started.wait()
    assert await store.get_attachments([given.id]) == []
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert await is_gone(store, tmp_path, given.id)


async def test_attachments_become_a_sessions_all_or_none(store: Store) -> None:
    here, there = a_session(), a_session()
    for session in (here, there):
        await store.create_session(session)
    one, two, theirs = [await add(store, an_attachment(user_id=user)) for user in ("ann", "ann", "bob")]
    with pytest.raises(AttachmentNotFound):
        await store.attach([one.id, theirs.id], "ann", here.id)
    with pytest.raises(AttachmentNotFound):
        await store.attach([one.id, "absent"], "ann", here.id)
    assert await store.attach([one.id], "ann", here.id) == [one.id]
    # Again, as a question that is asked anew does.
    assert await store.attach([one.id, two.id], "ann", here.id) == [two.id]
    with pytest.raises(AttachmentNotFound):
        await store.attach([one.id], "ann", there.id)
    assert {each.session_id for each in await store.get_attachments([one.id, two.id])} == {here.id}
    await store.detach([two.id], there.id)
    await store.detach([two.id], here.id)
    assert await store.attach([two.id], "ann", there.id) == [two.id]
    assert [each.id for each in await store.page(ATTACHMENTS, None, 9, session_id=there.id)] == [two.id]


async def test_of_two_sessions_one_gets_an_attachment(store: Store) -> None:
    attachments = [await add(store, an_attachment(b"x"), b"x") for _ in range(6)]
    ids = [each.id for each in attachments]
    orders = [ids, ids[::-1]]
    attaching = [store.attach(order, "ann", f"session {n}") for n, order in enumerate(orders)]
    outcomes = await asyncio.gather(*attaching, return_exceptions=True)
    owners = {each.session_id for each in await store.get_attachments(ids)}
    assert len(owners) == 1
    assert [isinstance(one, list) for one in outcomes] == [f"session {n}" in owners for n in range(2)]


async def test_a_sent_attachment_is_not_deleted_as_unsent(store: Store, tmp_path: Path) -> None:
    sent, unsent = await add(store, an_attachment()), await add(store, an_attachment())
    await store.attach([sent.id], "ann", "a session")
    assert await store.remove_attachments([sent.id, unsent.id], only_unsent=True) == [unsent.id]
    assert await is_gone(store, tmp_path, unsent.id)
    assert await content_of(store, sent.id) == CONTENT
    assert await store.remove_attachments([sent.id]) == [sent.id]
    assert await is_gone(store, tmp_path, sent.id)


async def test_what_is_left_is_found_by_its_age(store: Store) -> None:
    old, newer = [await add(store, an_attachment(b"x", minute=minute), b"x") for minute in (0, 10)]
    sent = await add(store, an_attachment(b"x"), b"x")
    await store.attach([sent.id], "ann", "a session")

    async def stale(minute: int) -> list[str]:
        at = EPOCH + timedelta(minutes=minute)
        return await store.stale_attachments(at, EPOCH, 10)

    assert await stale(0) == [] and await stale(5) == [old.id]
    assert set(await stale(20)) == {old.id, newer.id}
    assert len(await store.stale_attachments(EPOCH + timedelta(minutes=20), EPOCH, 1)) == 1


async def test_what_a_dead_process_has_begun_is_found_and_removed(store: Store, tmp_path: Path) -> None:
    given, stopped = an_attachment(), asyncio.Event()

    async def dies() -> AsyncIterator[bytes]:
        yield CONTENT
        stopped.set()
        await asyncio.Event().wait()

    adding = asyncio.create_task(store.add_attachment(given, dies(), ROOM))
    await stopped.wait()
    later = EPOCH + timedelta(minutes=1)
    assert await store.stale_attachments(EPOCH, later, 10) == [given.id]
    assert await store.remove_attachments([given.id]) == [given.id]
    assert await is_gone(store, tmp_path, given.id)
    adding.cancel()
    await asyncio.wait({adding})
    assert await is_gone(store, tmp_path, given.id)


async def test_an_upload_that_outlives_its_row_does_not_come_back(store: Store, tmp_path: Path) -> None:
    given, more = an_attachment(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield CONTENT
        await more.wait()

    adding = asyncio.create_task(store.add_attachment(given, slow(), ROOM))
    while not await store.page(ATTACHMENTS, None, 9):
        await asyncio.sleep(0)
    await store.remove_attachments([given.id])
    more.set()
    with pytest.raises(AttachmentNotFound):
        await adding
    assert await is_gone(store, tmp_path, given.id)


async def test_the_files_beside_sqlite_are_private(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
    kept = await add(store, an_attachment())
    await store.aclose()
    file = tmp_path / "attachments" / "store.db" / kept.id
    found = await asyncio.to_thread(lambda: [path.stat().st_mode for path in (file, *list(file.parents)[:2])])
    assert [stat.S_IMODE(mode) for mode in found] == [0o600, 0o700, 0o700]


async def test_a_transfer_copies_contents_once(tmp_path: Path, target: MongoStore) -> None:
    source = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
    session = a_session()
    await source.create_session(session)
    sent, unsent = await add(source, an_attachment()), await add(source, an_attachment(b"x"), b"x")
    await source.attach([sent.id], "ann", session.id)
    for _ in range(2):
        done = await transfer(source, target, lambda there, total: None)
        assert done.is_whole and done.there["attachments"] == 2
        assert await content_of(target, sent.id) == CONTENT and await content_of(target, unsent.id) == b"x"
        assert [each.session_id for each in await target.get_attachments([sent.id])] == [session.id]
    await source.aclose()
