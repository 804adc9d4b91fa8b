"""SQLite's index of texts: a search finds the same with it, before and after, and nothing deleted stays in it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agentic_backend.protocol.messages import Channel, utc_now
from agentic_backend.protocol.parts import text_of
from agentic_backend.stores.base import SessionQuery, Store
from agentic_backend.stores.protocol.message_search import MessageSearch
from agentic_backend.stores.protocol.session_search import SessionSearch
from agentic_backend.stores.records import MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore, migrations
from agentic_backend.stores.sqlite.migrations import MIGRATIONS
from agentic_backend.stores.sqlite.sessions.text_index import (
    BLOCK_CHARS,
    BLOCK_MESSAGES,
    IDLE,
    LONGEST_TEXT,
    WRITTEN_CHARS,
)
from tests.stores.samples import (
    a_session,
    an_end,
    an_exchange,
    answer,
    fence_after,
    fork,
    question,
    run_exchanges,
)

WORDS = ("light", "li", "STRASSE", "50%", '"quoted"', "\x00d", "日本語", "本", "sugar", "zebra", "nowhere", "ght int")


class Clock:
    """The machine's clock, which a test sets forward."""

    ahead = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path, clock: Clock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, timeout_s=10, wall=clock)
    yield store
    await store.aclose()


async def index_all(store: SqliteStore, clock: Clock) -> int:
    """Index what idle sessions have; how many writes that took."""
    clock.ahead += 2 * IDLE
    written = 0
    while done := await store.index_texts(7):
        written += done
    return written


async def talk(store: Store, *drafts: MessageDraft, user_id: str = "ann", title: str = "Untold") -> SessionRecord:
    session = a_session(user_id=user_id, title=title)
    exchange = an_exchange(session)
    written = await store.begin_exchange(exchange, question("Hello?"), session)
    await store.append(fence_after(written, exchange.id), list(drafts), an_end())
    return session


async def found(store: Store, user_id: str = "ann") -> list[object]:
    """What every kind of search finds for all WORDS and pairs of them."""
    seen: list[object] = []
    for words in [[word] for word in WORDS] + [["light", word] for word in WORDS]:
        page = await store.search_sessions(SessionSearch(user_id, words))
        seen.append([(each.session.id, [message.rank for message in each.messages]) for each in page.found])
        messages = await store.find_messages(MessageSearch(user_id, words, limit=50))
        seen.append([(message.session_id, message.rank) for message in messages])
        listed = await store.list_sessions(SessionQuery(user_id, text=" ".join(words)))
        seen.append([session.id for session in listed.sessions])
    return seen


def rows(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Run `statements` on a connection of their own; the rows of the last."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            given = db.execute(statement).fetchall()
        return given


def content(path: Path) -> bytes:
    """All that is on the disk."""
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


async def terms(path: Path) -> int:
    """The number of different groups of characters in the index."""
    vocabulary = "CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab('main', 'message_texts', 'row')"
    [(count,)] = await asyncio.to_thread(rows, path, vocabulary, "SELECT count(*) FROM temp.vocabulary")
    assert isinstance(count, int)
    return count


async def talk_of_everything(store: SqliteStore) -> list[SessionRecord]:
    texts = ["Leaves turn LIGHT into sugar. Straße", "50% of a.b*c\x00d, then light", 'light "quoted" 日本語のテキスト']
    sessions = [
        await talk(store, *(answer(text) for text in texts)),
        await talk(store, *(answer(text) for text in texts), user_id="bob"),
        await talk(store, replace(answer("light zebra"), channel=Channel.THOUGHT), title="Light and sugar"),
        await talk(store, *(answer(f"light {number}") for number in range(3 * BLOCK_MESSAGES)), answer("sugar")),
        await talk(store, answer("light " + "x" * LONGEST_TEXT + " sugar"), answer("after zebra")),
        await talk(store, *(answer("light " + "y" * (BLOCK_CHARS // 3) + str(number)) for number in range(9))),
    ]
    branch = await fork(store, sessions[3].id, 5)
    await run_exchanges(store, branch, 2)
    return [*sessions, branch]


async def test_a_search_finds_the_same_before_while_and_after_it_is_indexed(store: SqliteStore, clock: Clock) -> None:
    await talk_of_everything(store)
    before = await found(store), await found(store, "bob")
    assert any(before[0]) and before[0] != before[1]
    clock.ahead = 2 * IDLE
    writes = 0
    while await store.index_texts(1):
        writes += 1
        assert (await found(store), await found(store, "bob")) == before
    assert writes > 1
    assert (await found(store), await found(store, "bob")) == before


async def test_what_is_said_after_it_was_indexed_is_found_too(store: SqliteStore, clock: Clock) -> None:
    session = await talk(store, answer("light one"))
    await index_all(store, clock)
    await run_exchanges(store, session, 1)
    exchange = an_exchange(session)
    written = await store.begin_exchange(exchange, question("light two"))

    async def is_found() -> bool:
        page = await store.search_sessions(SessionSearch("ann", ["light"]))
        return [text_of(message.parts) for message in page.found[0].messages] == ["light two", "light one"]

    assert await is_found()
    await index_all(store, clock)
    assert await is_found()
    await store.append(fence_after(written, exchange.id), [answer()], an_end())
    await index_all(store, clock)
    assert await is_found()


async def test_a_session_is_indexed_when_it_is_idle_or_has_grown(store: SqliteStore, clock: Clock) -> None:
    session = await talk(store, answer("light"))
    assert await store.index_texts(5) == 0
    await talk(store, *(answer("light") for _ in range(2 * BLOCK_MESSAGES)))
    assert await store.index_texts(5) == 1
    clock.ahead = 2 * IDLE
    assert await store.index_texts(5) > 0
    assert await store.index_texts(5) == 0
    await store.delete_session(session.id)


def repeat_session(path: Path, session_id: str, sessions: int, messages: int) -> None:
    """Copy a session `sessions` times, and its last message as often as it takes, straight into the file."""
    with closing(sqlite3.connect(path)) as db, db:
        for table, key in (("sessions", "id"), ("messages", "session_id")):
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            changed = {
                key: f"{key} || '-' || i",
                "rank": "j",
                "next_rank": str(messages),
                "message_count": str(messages),
            }
            one = {"sessions": "j = 0", "messages": "rank = 1"}[table]
            db.execute(
                f"INSERT INTO {table} WITH RECURSIVE"
                " m(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM m WHERE i < ?),"
                " n(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM n WHERE j < ?)"
                f" SELECT {', '.join(changed.get(name, name) for name in names)} FROM {table}, m, n"
                f" WHERE {key} = ? AND {one}",
                (sessions, messages - 1, session_id),
            )


async def test_a_rare_word_among_50_000_texts_costs_a_fraction(store: SqliteStore, clock: Clock, path: Path) -> None:
    """Counted in instructions of SQLite's machine."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    async def cost() -> int:
        nonlocal steps
        steps = 0
        await store.searcher.read("count", lambda db: db.set_progress_handler(step, 1))
        assert len(await store.find_messages(MessageSearch("ann", ["zebra"]))) == 1
        await store.searcher.read("count", lambda db: db.set_progress_handler(None, 0))
        return steps

    await talk(store, answer("a zebra"))
    session = await talk(store, answer("lorem ipsum"))
    await asyncio.to_thread(repeat_session, path, session.id, 500, 100)
    before = await cost()
    await index_all(store, clock)
    assert await cost() < before / 2


async def test_what_is_deleted_leaves_the_index(store: SqliteStore, clock: Clock, path: Path) -> None:
    sessions = await talk_of_everything(store)
    await index_all(store, clock)
    assert await terms(path) > 100
    # A branch goes with its parent.
    for session in sessions[:-1]:
        await store.delete_session(session.id)
    assert await terms(path) == 0
    assert not any(await found(store))


async def test_a_long_session_is_deleted_in_several_writes(store: SqliteStore, clock: Clock, path: Path) -> None:
    session = await talk(store, *(answer("z" * WRITTEN_CHARS) for _ in range(40)))
    other = await talk(store, answer("light"))
    await index_all(store, clock)
    writes: list[str] = []
    await store.writer.read("trace", lambda db: db.set_trace_callback(writes.append))
    assert await store.delete_session(session.id) == [session.id]
    assert writes.count("COMMIT") > 1
    page = await store.search_sessions(SessionSearch("ann", ["light"]))
    assert [each.session.id for each in page.found] == [other.id]


async def test_nothing_of_the_deleted_is_in_the_file_after_it_was_erased(
    store: SqliteStore, clock: Clock, path: Path
) -> None:
    rare = "龘靐齉"
    session = await talk(store, answer(f"secret {rare}"))
    await index_all(store, clock)
    for number in range(5):
        await talk(store, answer(f"light {number}"))
        await index_all(store, clock)
    assert rare.encode() in await asyncio.to_thread(content, path)
    await store.delete_session(session.id)
    await store.erase()
    left = await asyncio.to_thread(content, path)
    assert not any(sign.encode() in left for sign in rare)
    assert len((await store.search_sessions(SessionSearch("ann", ["light"]))).found) == 5


async def test_an_older_file_is_searched_at_once_and_indexed_meanwhile(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "MIGRATIONS", MIGRATIONS[:7])
        await (await SqliteStore.open(path, timeout_s=10)).aclose()
    at, parts = "2026-01-01T00:00:00.000000Z", '[{"type":"text","text":"Light"}]'
    await asyncio.to_thread(
        rows,
        path,
        "INSERT INTO sessions (id, user_id, agent_id, title, search_title, state, created_at, updated_at, next_rank,"
        f" message_count, chat_profile) VALUES ('s', 'ann', 'a', '', '', 'active', '{at}', '{at}', 1, 1, '')",
        "INSERT INTO messages (session_id, rank, exchange_id, timestamp, role, channel, search_text, parts, metadata)"
        f" VALUES ('s', 0, 'e', '{at}', 'assistant', 'final', 'light', '{parts}', '{{}}')",
    )
    store = await SqliteStore.open(path, timeout_s=10, wall=clock)
    try:
        for _ in range(2):
            assert len(await store.find_messages(MessageSearch("ann", ["light"]))) == 1
            await index_all(store, clock)
        assert await terms(path) > 0
    finally:
        await store.aclose()


async def test_a_copied_session_that_is_cleared_leaves_the_index(store: SqliteStore, clock: Clock, path: Path) -> None:
    session = await talk(store, answer("light"))
    await index_all(store, clock)
    await store.clear_sessions([session.id])
    assert await terms(path) == 0


async def test_two_processes_that_index_at_once_do_no_harm(store: SqliteStore, clock: Clock, path: Path) -> None:
    await talk_of_everything(store)
    before = await found(store)
    other = await SqliteStore.open(path, timeout_s=10, wall=clock)
    try:
        await asyncio.gather(index_all(store, clock), index_all(other, clock))
        assert await found(other) == before
    finally:
        await other.aclose()
