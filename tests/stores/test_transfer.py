"""Everything that is in SQLite comes to MongoDB, however often, and what went wrong on the way shows in the counts."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.further_cases import further

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, utc_now
from agentic_backend.stores import transfer as transferring
from agentic_backend.stores.base import AlreadyAsked, KeptState, SessionChange, SessionQuery, Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.protocol.application_records import RecordWrite
from agentic_backend.stores.protocol.items import ItemBounds, ItemQuery
from agentic_backend.stores.protocol.trail import FeedbackRecord, TrailQuery
from agentic_backend.stores.records import AttachmentRecord, ExchangeRecord, JournalMark, SessionRecord, UserDeletion
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.tables import (
    APPLICATION_RECORDS,
    SESSION_APPLICATION_RECORDS,
    SESSIONS,
    TABLES,
    TRAIL,
    records_table,
)
from agentic_backend.stores.transfer import Counts, TargetOfOthers, Transferred, transfer
from tests.stores.faulty_database import make_faulty, once
from tests.stores.samples import (
    CONTENT,
    EPOCH,
    a_checkpoint,
    a_decision,
    a_kpi,
    a_kpi_query,
    a_pause,
    a_piece,
    a_record,
    a_session,
    added,
    an_agent_version,
    an_attachment,
    an_end,
    an_exchange,
    an_item,
    answer,
    begin,
    begin_new,
    fence_after,
    in_pieces,
    new_id,
    question,
    run_exchanges,
    stored,
    texts,
)
from tests.stores.trail_samples import one_of_each


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=10)
    yield store
    await store.aclose()


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transferring, "SESSIONS_PER_PAGE", 3)
    monkeypatch.setattr(transferring, "ROWS_PER_PAGE", 4)


async def fill(store: SqliteStore) -> None:
    """Seven sessions: six of some exchanges, with a state and KPIs; in the last one an exchange waits."""
    for number in range(6):
        session = a_session(id=f"session {number}", title=f"Title {number}", minute=number)
        await store.create_session(session)
        await run_exchanges(store, session, number)
        fence = await begin(store, session, client_exchange_id=f"key {number}")
        kpi = a_kpi(exchange_id=fence.exchange_id, minute=number)
        await store.append(fence, [answer()] * number, an_end(kpi=kpi, session_state=f"state {number}".encode()))
    await store.reset_state("session 5")
    session = a_session(id="waiting")
    exchange = an_exchange(session, id="waits", owner="gone", runtime_context={"a.b": "$c"})
    written = await store.begin_exchange(exchange, question(), session)
    pause = a_pause(deadline=EPOCH, checkpoint=a_checkpoint(b"\x00on\xff"))
    await store.set_waiting(fence_after(written, "waits", "gone"), pause)
    await store.decide(await stored(store, "waits"), [a_decision("first")])
    await store.record_kpi(a_kpi("bob", minute=9))
    await store.add_trail([record for number in range(6) for record in one_of_each(f"session {number}", minute=number)])
    await store.keep_deletion(UserDeletion(user_id="carol", at=EPOCH, until=EPOCH))
    await store.keep_journal_mark(JournalMark(journal_id="journal", until=EPOCH), EPOCH)
    await store.put_items([an_item("a.b", f"key {number}", minute=number) for number in range(9)], [], ItemBounds())
    await store.open_application_records()
    for number in range(4):
        sought: dict[str, Any] = {"searched": f"s{number}", "words": "1 word", "vector": bytes([number, 255])}
        own = (
            a_record(f"{number}", unique_1=f"u{number}", **sought),
            a_record(f"{number}", "bob", session_id="session 2", vector=b"\0"),
        )
        await store.write_application_records(added(own[0], replace(own[1], user_id="ann")))
    for number in (1, 2):
        await store.add_agent_versions([an_agent_version("a", number)], 10)


async def copy(source: SqliteStore, target: MongoStore) -> Transferred:
    return await transfer(source, target, lambda there, total: None)


async def contents(store: Store) -> list[object]:
    """All that the store tells of its sessions and KPIs."""
    told: list[object] = [await store.kpi_figures(a_kpi_query(None, end=utc_now() + timedelta(days=1)))]
    told.append(await store.find_items(ItemQuery("ann")))
    told += [(await store.trail(TrailQuery(kind))).records for kind in TRAIL]
    told.append(await store.deletions())
    told += [await store.page(records_table(of_session=each), None, 100) for each in (False, True)]
    for session in (await store.list_sessions(SessionQuery("ann"))).sessions:
        messages = await store.messages_after(session.id, -1, 1000)
        told += [session, messages, await store.last_exchanges(session.id, 2)]
        told += [await store.session_state(session.id, rank) for rank in range(session.next_rank + 1)]
        for exchange_id in sorted({message.exchange_id for message in messages}):
            told += [await store.get_exchange(exchange_id), await store.checkpoint(exchange_id)]
    return told


async def test_everything_is_copied_and_counted(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    reports: list[tuple[str, str]] = []
    done = await transfer(source, target, lambda there, total: reports.append((str(there), str(total))))
    assert (
        done.found
        == done.there
        == Counts(sessions=7, exchanges=22, messages=52, kpi_records=7, items=9, agent_versions=2, user_deletions=1)
        + Counts(application_records=4, session_application_records=4, journal_marks=1)
        + Counts({table.name: 6 for table in TRAIL.values()})
        == await source.total()
    )
    assert done.is_whole and done.left_alone == []
    assert await contents(target) == await contents(source)
    totals = {total for _, total in reports}
    assert len(totals) == 1
    assert totals.pop().startswith(
        "7 sessions, 22 exchanges, 52 messages, 7 KPI records, 9 items, 4 records of applications, "
        "4 records of applications in sessions, 6 audits, "
    )
    assert [there for there, _ in reports][-1] == reports[-1][1] and len(reports) == 18


async def test_what_was_copied_goes_on(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await copy(source, target)
    assert [record.id for record in await target.expired_exchanges(utc_now())] == ["waits"]
    await target.decide(await stored(target, "waits"), [a_decision("second")], "new")
    fence = await target.fence("waiting")
    assert fence is not None and fence.owner == "new"
    await target.append(fence, [answer()], an_end(ExchangeStatus.INTERRUPTED))
    assert await target.checkpoint("waits") == await source.checkpoint("waits")
    assert [decision.interrupt_id for decision in (await stored(target, "waits")).decisions] == ["first", "second"]
    with pytest.raises(AlreadyAsked):
        await target.begin_exchange(an_exchange(a_session(id="x"), client_exchange_id="key 3"), question())
    session = await target.get_session("session 3")
    assert session is not None
    await run_exchanges(target, session, 1)
    assert len(await target.messages_after("session 3", -1, 100)) == session.next_rank + 2
    assert (await target.list_sessions(SessionQuery("ann", text="TITLE 4"))).sessions[0].id == "session 4"


async def test_of_text_that_was_being_written_what_has_no_message_yet_is_copied(
    source: SqliteStore, target: MongoStore
) -> None:
    fence = await begin_new(source, owner="gone")
    texts = [PartialText(block=block, channel=Channel.FINAL, text="It is") for block in range(2)]
    await source.append(fence, [answer("It is this.")], blocks=[0])
    await source.keep_partials("gone", {fence.exchange_id: texts})
    await source.add_partials([a_piece(fence, "gone", 0, " sunny.", block=1)])
    await copy(source, target)
    [copied] = await target.partial(fence.exchange_id)
    assert [copied] == await source.partial(fence.exchange_id)
    assert (copied.block, copied.text) == (1, "It is sunny.")


async def test_run_again_it_copies_only_what_has_changed(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await copy(source, target)
    changed = await source.get_session("session 2")
    assert changed is not None
    await run_exchanges(source, changed, 2)
    await source.change_session("session 4", SessionChange(title="Another title", pinned=True))
    await source.create_session(a_session(id="new"))
    copied: list[str] = []
    real = target.copy_session

    async def copy_session(session: SessionRecord, states: Sequence[KeptState]) -> None:
        copied.append(session.id)
        await real(session, states)

    target.copy_session = copy_session  # type: ignore[method-assign]
    done = await copy(source, target)
    assert done.is_whole and copied == ["new", "session 2", "session 4"]
    assert await contents(target) == await contents(source)


@pytest.mark.parametrize(
    "collection",
    [
        *("messages", "exchanges", "sessions", "session_states", "kpi_records"),
        *map(further, ("items", "prompts", "usage")),
    ],
)
async def test_cut_short_it_can_be_run_again(source: SqliteStore, target: MongoStore, collection: str) -> None:
    await fill(source)
    method = "insert_one" if "session" in collection else "insert_many"
    make_faulty(target, once(collection, method, "unheard"))
    with pytest.raises(StoreUnavailable):
        await copy(source, target)
    assert (await copy(source, target)).is_whole
    assert await contents(target) == await contents(source)


async def test_a_session_that_has_gone_on_in_the_target_is_left_alone(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await copy(source, target)
    session = await target.get_session("session 5")
    assert session is not None
    await run_exchanges(target, session, 1)
    before = await target.messages_after("session 5", -1, 100)
    done = await copy(source, target)
    assert done.is_whole and done.left_alone == ["session 5"]
    assert done.found["sessions"] == 6
    assert await target.messages_after("session 5", -1, 100) == before


async def test_a_session_whose_state_was_reset_in_the_target_keeps_its_reset(
    source: SqliteStore, target: MongoStore
) -> None:
    await fill(source)
    await copy(source, target)
    assert await target.session_state("session 4") is not None
    reset = await target.reset_state("session 4")
    done = await copy(source, target)
    assert done.is_whole and done.left_alone == ["session 4"]
    assert await target.get_session("session 4") == reset
    assert await target.session_state("session 4") is None


async def test_a_session_that_was_named_in_the_target_keeps_its_name(source: SqliteStore, target: MongoStore) -> None:
    await source.create_session(replace(a_session(id="s", title="hello"), unnamed=True))
    await copy(source, target)
    await target.name_session("s", "A good name")
    assert (await copy(source, target)).left_alone == ["s"]
    named = await target.get_session("s")
    assert named is not None and named.title == "A good name"


async def test_items_that_were_updated_in_the_target_stay(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await copy(source, target)
    await target.put_items([an_item("a.b", "key 2", '{"there": 1}', minute=30)], [], ItemBounds())
    await source.put_items(
        [an_item("a.b", f"key {number}", '{"here": 1}', minute=20) for number in (2, 3)], [], ItemBounds()
    )
    done = await copy(source, target)
    assert done.is_whole and done.there["items"] == 9
    values = {item.key: item.value for item in await target.find_items(ItemQuery("ann"))}
    assert (values["key 2"], values["key 3"], values["key 4"]) == ('{"there": 1}', '{"here": 1}', "{}")


async def test_records_that_have_changed_since_are_copied_again(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await copy(source, target)
    [of_session, *_] = await source.page(SESSION_APPLICATION_RECORDS, None, 1)
    [own, *_] = await source.page(APPLICATION_RECORDS, None, 1)
    await source.write_application_records(
        [
            RecordWrite(replace(of_session, revision=2, value={"text": "changed"})),
            *added(a_record("new", session_id="session 3")),
            RecordWrite(own, is_removal=True),
        ]
    )
    # Its unique value is another one's now.
    await source.write_application_records(added(a_record("next", unique_1=own.unique_1)))
    done = await copy(source, target)
    assert done.is_whole
    for table in (SESSION_APPLICATION_RECORDS, APPLICATION_RECORDS):
        assert await target.page(table, None, 100) == await source.page(table, None, 100)


async def test_feedback_on_a_session_that_stays_is_copied_again(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await copy(source, target)
    [feedback] = [record for record in one_of_each("session 1", minute=30) if isinstance(record, FeedbackRecord)]
    await source.add_trail([feedback])
    assert (await copy(source, target)).is_whole
    assert feedback in (await target.trail(TrailQuery(FeedbackRecord))).records


async def test_what_is_missing_shows_in_the_counts(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await copy(source, target)
    await target.driver.database["messages"].delete_one({"session_id": "session 5"})
    done = await copy(source, target)
    assert not done.is_whole
    assert (done.found["messages"], done.there["messages"]) == (52, 51)


async def test_the_next_ask_drops_what_a_copied_interrupted_exchange_would_go_on_from(
    source: SqliteStore, target: MongoStore
) -> None:
    session = a_session()
    await source.create_session(session)
    await run_exchanges(source, session, 1)
    fence = await begin(source, session, runtime_context={"secret": "x"})
    await source.append(fence, [answer()], an_end(ExchangeStatus.INTERRUPTED), a_checkpoint())
    await copy(source, target)
    assert (await stored(target, fence.exchange_id)).runtime_context == {"secret": "x"}
    exchanges = target.driver.database["exchanges"]
    for store in (source, target):
        await begin(store, session)
        assert (await stored(store, fence.exchange_id)).runtime_context == {}
    kept = await exchanges.find_one({"_id": fence.exchange_id})
    assert kept is not None and kept["checkpoint"] is None


async def test_who_begins_at_a_rank_that_a_copied_message_has_begins_at_the_next_one(
    source: SqliteStore, target: MongoStore
) -> None:
    session = a_session()
    await source.create_session(session)
    await run_exchanges(source, session, 2)
    await copy(source, target)
    for number in range(2):
        # Once behind copied messages only, then behind those of an exchange here too.
        late = an_exchange(session)
        written = await target.begin_exchange(late, question("And this?"))
        assert (late.first_rank, [message.rank for message in written.messages]) == (0, [4 + 2 * number])
        await target.append(fence_after(written, late.id), [answer("That too.")], an_end())
    asked = ["What is it?", "answer 0", "What is it?", "answer 1", *["And this?", "That too."] * 2]
    assert await texts(target, session.id) == asked
    assert await target.driver.database["messages"].count_documents({}) == len(asked)


async def test_a_copied_message_that_does_not_count_gives_way(source: SqliteStore, target: MongoStore) -> None:
    session = a_session()
    await source.create_session(session)
    await run_exchanges(source, session, 1)
    await copy(source, target)
    copied = await target.driver.database["messages"].find_one({"rank": 1})
    assert copied is not None and copied["batch"] is None
    for rank, batch in ((2, None), (3, "dead")):
        left = {**copied, "_id": new_id(), "rank": rank, "batch": batch}
        await target.driver.database["messages"].insert_one(left)
    await run_exchanges(target, replace(session, next_rank=2), 1)
    assert await texts(target, session.id) == ["What is it?", "answer 0"] * 2


async def everything(store: SqliteStore) -> dict[str, list[object]]:
    """All rows of a file, its states, its checkpoints, and the contents of its attachments."""
    rows: dict[str, list[object]] = {}
    for table in TABLES:
        if table.of_session:
            pages = [
                await store.page(table, None, 1000, session.id) for session in await store.page(SESSIONS, None, 99)
            ]
            rows[table.name] = [record for page in pages for record in page]
        else:
            rows[table.name] = list(await store.page(table, None, 1000))
    for session in await store.page(SESSIONS, None, 99):
        rows[f"states of {session.id}"] = list(await store.session_states(session.id))
    for exchange in rows["exchanges"]:
        assert isinstance(exchange, ExchangeRecord)
        rows[f"checkpoint of {exchange.id}"] = [await store.checkpoint(exchange.id)]
    for attachment in rows["attachments"]:
        assert isinstance(attachment, AttachmentRecord)
        rows[attachment.id] = [b"".join([piece async for piece in store.attachment_content(attachment.id)])]
    return rows


async def test_there_and_back_everything_is_equal_though_the_way_back_was_interrupted(
    source: SqliteStore, target: MongoStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(source)
    await source.add_attachment(an_attachment(), in_pieces(CONTENT), most_bytes=10**9)
    await copy(source, target)
    async with aclosing(await SqliteStore.open(tmp_path / "back.sqlite3", timeout_s=10)) as back:
        with monkeypatch.context() as interrupted:
            written = 0
            put = back.copy_session

            async def breaks_off(session: SessionRecord, states: Sequence[KeptState]) -> None:
                nonlocal written
                if (written := written + 1) > 4:
                    raise StoreUnavailable
                await put(session, states)

            interrupted.setattr(back, "copy_session", breaks_off)
            with pytest.raises(StoreUnavailable):
                await transfer(target, back, lambda there, total: None)
        done = await transfer(target, back, lambda there, total: None)
        assert done.is_whole and done.left_alone == []
        before = await everything(source)
        assert {name for name, rows in before.items() if not rows} <= {f"states of session {n}" for n in range(6)} | {
            "states of waiting", "states of session 5", "partial_pieces",
        }  # fmt: skip
        assert await everything(back) == before
        again = await transfer(target, back, lambda there, total: None)
        assert again.found == again.there == done.found


async def test_a_target_that_has_sessions_of_others_only_is_refused(source: SqliteStore, target: MongoStore) -> None:
    await fill(source)
    await begin_new(target)
    with pytest.raises(TargetOfOthers):
        await copy(source, target)
    assert await target.get_session("session 1") is None
