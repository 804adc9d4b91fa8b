"""The SQLite schema, as numbered migrations; `PRAGMA user_version` is the number of the last one applied.

A migration never changes once released: what changes comes as another one at the end. Columns are named as the fields
of the values they hold; times are RFC 3339 texts in UTC, which sort as times do; `search_…` columns are case-folded.
`last_write` is the token of the last write for a session's active exchange, and of an exchange's last pause, claim or
end; `block` is where a message was being written.
"""

import sqlite3
from functools import partial

from agentic_backend.stores.sqlite_connection import SqliteConnection

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
# A running exchange of before has no lease, and so is due; a waiting one goes on from what it kept.
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
# What was written before has no token, and is never asked for by one.
_WRITES = (
    "ALTER TABLE sessions ADD COLUMN last_write TEXT",
    "ALTER TABLE exchanges ADD COLUMN last_write TEXT",
    "ALTER TABLE messages ADD COLUMN block INTEGER",
)
MIGRATIONS = (_FIRST, _CHECKPOINTS, _LEASES, _COUNTS_PER_USER, _WRITES)


class SchemaTooNew(Exception):
    """A newer server has written the database; this one can't know what it means."""


async def migrate(connection: SqliteConnection) -> None:
    """Bring the database up to the newest schema, each migration in a transaction of its own.

    Raises SchemaTooNew where it is beyond the last migration known here, and StoreUnavailable.
    """
    version = await connection.read("migrate", _version)
    if version > len(MIGRATIONS):
        raise SchemaTooNew(
            f"The database has schema version {version}, and this server knows versions up to {len(MIGRATIONS)}: "
            "run the newer server that wrote it, or restore a backup."
        )
    for number in range(version + 1, len(MIGRATIONS) + 1):
        await connection.write("migrate", partial(_apply, number))


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _apply(number: int, db: sqlite3.Connection) -> None:
    # Another process may have opened the same file and been first.
    if _version(db) >= number:
        return
    for statement in MIGRATIONS[number - 1]:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {number}")
