"""The SQLite schema: the declared tables, and numbered migrations for all other changes.

`PRAGMA user_version` is the number of the last migration applied. A released migration never changes; a new change is
appended as another one. After the migrations, missing parts of the Tables are added: tables, indexes, and nullable
columns. So a new kind of row needs no migration; a change that older servers must not write to needs one.

`session_states` holds the state of a session's graphs after an exchange; `rank` was the session's next rank then.

Columns that no Table declares: `last_write` is the token of the last write for a session's active exchange, and of an
exchange's last pause, claim or end; `checkpoint` is the state from which an exchange continues; `text_number` and
`indexed_rank` are a session's place in the index of texts (see text_index).
"""

import sqlite3
from collections.abc import Iterator
from functools import partial
from typing import Any

from agentic_backend.stores.columns import Column
from agentic_backend.stores.schema import SchemaTooNew
from agentic_backend.stores.sqlite.connection import SqliteConnection
from agentic_backend.stores.tables import TABLES, Table

_FIRST = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        user_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        title TEXT NOT NULL,
        search_title TEXT NOT NULL,
        state TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        ended_at TEXT,
        next_rank INTEGER NOT NULL,
        message_count INTEGER NOT NULL,
        chat_profile TEXT NOT NULL,
        active_exchange_id TEXT
    ) STRICT
    """,
    "CREATE INDEX sessions_by_activity ON sessions (user_id, updated_at, id)",
    """
    CREATE TABLE session_states (
        session_id TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
        state BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE exchanges (
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
        user_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        status TEXT NOT NULL,
        client_exchange_id TEXT,
        request_id TEXT NOT NULL,
        first_rank INTEGER NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        last_seq INTEGER NOT NULL,
        usage TEXT NOT NULL,
        error TEXT,
        pending TEXT,
        resumes TEXT,
        UNIQUE (user_id, client_exchange_id)
    ) STRICT
    """,
    "CREATE INDEX exchanges_by_rank ON exchanges (session_id, first_rank)",
    "CREATE INDEX exchanges_unended ON exchanges (started_at) WHERE status IN ('running', 'awaiting_human')",
    """
    CREATE TABLE messages (
        session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
        rank INTEGER NOT NULL,
        exchange_id TEXT NOT NULL,
        timestamp TEXT NOT NULL,
        role TEXT NOT NULL,
        channel TEXT NOT NULL,
        search_text TEXT NOT NULL,
        parts TEXT NOT NULL,
        metadata TEXT NOT NULL,
        PRIMARY KEY (session_id, rank)
    ) STRICT
    """,
    "CREATE INDEX messages_by_exchange ON messages (exchange_id, rank)",
    """
    CREATE TABLE kpi_records (
        exchange_id TEXT PRIMARY KEY,
        user_id TEXT NOT NULL,
        started_at TEXT NOT NULL,
        record TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX kpi_records_by_time ON kpi_records (started_at)",
    "CREATE INDEX kpi_records_by_user ON kpi_records (user_id, started_at)",
)
_CHECKPOINTS = ("ALTER TABLE exchanges ADD COLUMN checkpoint BLOB",)
# An older running exchange has no lease, and so is due; a waiting one continues from its checkpoint.
_LEASES = (
    "ALTER TABLE sessions ADD COLUMN active_owner TEXT",
    "ALTER TABLE exchanges ADD COLUMN runtime_context TEXT",
    "ALTER TABLE exchanges ADD COLUMN owner TEXT",
    "ALTER TABLE exchanges ADD COLUMN deadline TEXT",
    "ALTER TABLE exchanges ADD COLUMN partial TEXT",
    "ALTER TABLE exchanges ADD COLUMN decisions TEXT",
    "ALTER TABLE exchanges ADD COLUMN checkpoint_record TEXT",
    "ALTER TABLE exchanges ADD COLUMN ran_ms INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE exchanges ADD COLUMN first_token_ms INTEGER",
    """
    UPDATE exchanges SET checkpoint_record = json_object(
        'version', 1, 'kind', 'approval_pending', 'at', started_at, 'exchange_id', id, 'request_id', request_id)
    WHERE checkpoint IS NOT NULL
    """,
    "DROP INDEX exchanges_unended",
    "CREATE INDEX exchanges_due ON exchanges (status, deadline) WHERE status IN ('running', 'awaiting_human')",
    "CREATE INDEX exchanges_resumable ON exchanges (session_id) WHERE checkpoint IS NOT NULL",
)
_COUNTS_PER_USER = (
    "CREATE INDEX exchanges_waiting ON exchanges (user_id, status) WHERE status = 'awaiting_human'",
    "CREATE INDEX sessions_empty ON sessions (user_id, next_rank) WHERE next_rank = 0",
)
# Older writes have no token; no writer repeats them.
_WRITES = (
    "ALTER TABLE sessions ADD COLUMN last_write TEXT",
    "ALTER TABLE exchanges ADD COLUMN last_write TEXT",
    "ALTER TABLE messages ADD COLUMN block INTEGER",
)
# A migration, because an older server would read a sub-agent's private messages as history. The runtime context is
# kept only while the exchange can continue.
_PRIVATE = (
    "ALTER TABLE messages ADD COLUMN inner INTEGER",
    "ALTER TABLE messages ADD COLUMN reached TEXT",
    """
    UPDATE exchanges SET runtime_context = NULL
    WHERE runtime_context IS NOT NULL AND checkpoint IS NULL AND status NOT IN ('running', 'awaiting_human')
    """,
)
# Before, a session had only the state of its last ended exchange.
_STATES_BY_EXCHANGE = (
    "ALTER TABLE session_states RENAME TO last_states",
    """
    CREATE TABLE session_states (
        session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
        rank INTEGER NOT NULL,
        exchange_id TEXT NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (session_id, rank)
    ) STRICT
    """,
    """
    INSERT INTO session_states (session_id, rank, exchange_id, state)
    SELECT sessions.id, coalesce(active.first_rank, sessions.next_rank), coalesce((
            SELECT id FROM exchanges WHERE session_id = sessions.id AND id IS NOT sessions.active_exchange_id
            ORDER BY first_rank DESC LIMIT 1), ''), last_states.state
    FROM last_states JOIN sessions ON sessions.id = last_states.session_id
        LEFT JOIN exchanges AS active ON active.id = sessions.active_exchange_id
    """,
    "DROP TABLE last_states",
)
# A migration, because an older server would leave the texts of a deleted session in the index.
_TEXT_INDEX = (
    "ALTER TABLE sessions ADD COLUMN text_number INTEGER",
    "ALTER TABLE sessions ADD COLUMN indexed_rank INTEGER NOT NULL DEFAULT 0",
    "CREATE UNIQUE INDEX sessions_by_text_number ON sessions (text_number)",
    "CREATE INDEX sessions_unindexed ON sessions (user_id) WHERE indexed_rank < next_rank",
    """
    CREATE VIRTUAL TABLE message_texts
    USING fts5 (owner, said, others, content = '', tokenize = 'trigram case_sensitive 1')
    """,
)
MIGRATIONS = (_FIRST, _CHECKPOINTS, _LEASES, _COUNTS_PER_USER, _WRITES, _PRIVATE, _STATES_BY_EXCHANGE, _TEXT_INDEX)


async def migrate(connection: SqliteConnection) -> None:
    """Bring the database up to the newest schema, each migration in its own transaction.

    Raises SchemaTooNew if the schema is newer than the last known migration, and StoreUnavailable.
    """
    version = await connection.read("migrate", _version)
    if version > len(MIGRATIONS):
        raise SchemaTooNew(version, len(MIGRATIONS))
    for number in range(version + 1, len(MIGRATIONS) + 1):
        await connection.write("migrate", partial(_apply, number))
    if await connection.read("migrate", _lacking):
        await connection.write("migrate", _complete)


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _apply(number: int, db: sqlite3.Connection) -> None:
    # Another process may have migrated the same file in the meantime.
    if _version(db) >= number:
        return
    for statement in MIGRATIONS[number - 1]:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {number}")


def _complete(db: sqlite3.Connection) -> None:
    for statement in _lacking(db):
        db.execute(statement)


def make_lazy_indexes(db: sqlite3.Connection) -> None:
    """Make the indexes of lazy tables that the file lacks."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    for table in TABLES:
        for name, statement in _indexes(table) if table.lazy else ():
            if name not in there:
                db.execute(statement)


def _lacking(db: sqlite3.Connection) -> list[str]:
    """The statements that create the declared tables, columns and indexes that the file lacks, but for lazy indexes."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    statements: list[str] = []
    for table in TABLES:
        if table.name not in there:
            statements.append(_definition(table))
        else:
            columns = {row["name"] for row in db.execute(f"PRAGMA table_info({table.name})")}
            added = [column for column in table.columns if column.name not in columns]
            statements += [f"ALTER TABLE {table.name} ADD COLUMN {column.name} {column.type}" for column in added]
        if not table.lazy:
            statements += [index for name, index in _indexes(table) if name not in there]
    return statements


def _definition(table: Table[Any]) -> str:
    columns = [*map(_column, table.columns), f"PRIMARY KEY ({', '.join(table.key)})"]
    if table.of_session:
        columns.append("FOREIGN KEY (session_id) REFERENCES sessions ON DELETE CASCADE")
    return f"CREATE TABLE {table.name} ({', '.join(columns)}) STRICT"


def _column(column: Column) -> str:
    return f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}"


def _indexes(table: Table[Any]) -> Iterator[tuple[str, str]]:
    for name, columns in table.indexes.items():
        ordered = ", ".join(f"{column[1:]} DESC" if column.startswith("-") else column for column in columns)
        yield f"{table.name}_{name}", f"CREATE INDEX {table.name}_{name} ON {table.name} ({ordered})"
    for column in table.unique:
        name = f"{table.name}_by_{column}"
        yield name, f"CREATE UNIQUE INDEX {name} ON {table.name} ({column})"
