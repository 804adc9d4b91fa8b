"""Sessions in SQLite."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from itertools import islice

from agentic_backend.stores.base import Completion, SessionChange, SessionPage, SessionQuery
from agentic_backend.stores.lineage import descendants
from agentic_backend.stores.protocol.trail import SummaryRecord
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.rows import PROOF_BYTES, folded, rfc3339
from agentic_backend.stores.sqlite.operation_base import Part, columns, count, first, insert, reads, select, writes
from agentic_backend.stores.sqlite.sessions.text_index import FORGOTTEN_CHARS, forget_session
from agentic_backend.stores.sqlite.sessions.text_search import TextSearch
from agentic_backend.stores.sqlite.sessions.trail import put_trail
from agentic_backend.stores.tables import SESSIONS

_NAME = f"""
    UPDATE sessions SET title = :title, search_title = :search_title, unnamed = FALSE
    WHERE (id = :family_id OR root_id = :family_id) AND unnamed
    RETURNING {columns(SESSIONS)}
"""

_CHANGE = f"""
    UPDATE sessions SET title = coalesce(:title, title), search_title = coalesce(:search_title, search_title),
        unnamed = iif(:title IS NULL, unnamed, FALSE), pinned = coalesce(:pinned, pinned),
        archived = coalesce(:archived, archived)
    WHERE id = :family_id OR root_id = :family_id
    RETURNING {columns(SESSIONS)}
"""

_COMPLETE = """
    UPDATE sessions SET state = 'completed', ended_at = max(updated_at, :at),
        updated_at = iif(:idle_since IS NULL, max(updated_at, :at), updated_at)
    WHERE id = :id AND state = 'active'
      AND (:idle_since IS NULL OR updated_at < :idle_since AND active_exchange_id IS NULL)
"""

_KEEP_SUMMARY = f"""
    UPDATE sessions SET summary_id = :summary_id
    WHERE id = :id AND state = 'active' AND next_rank = :next_rank AND reset_rank IS :reset_rank
        AND summary_id IS :former
        AND active_exchange_id IS :active_exchange_id AND active_owner IS :active_owner
    RETURNING {columns(SESSIONS)}
"""

_STATE = """
    SELECT state FROM session_states WHERE session_id = :session_id AND rank <= coalesce(:rank, 1 << 62)
    ORDER BY rank DESC LIMIT 1
"""


def session_with(db: sqlite3.Connection, session_id: str) -> SessionRecord | None:
    return first(db, SESSIONS, "id = ?", (session_id,))


def family_of(db: sqlite3.Connection, root_id: str) -> list[SessionRecord]:
    """The session and all that descends from it, the oldest first."""
    return select(db, SESSIONS, "id = :root OR root_id = :root ORDER BY created_at, id", {"root": root_id})


class Sessions(Part):
    @writes
    def create_session(self, db: sqlite3.Connection, session: SessionRecord) -> None:
        insert(db, SESSIONS, [session])

    @reads
    def get_session(self, db: sqlite3.Connection, session_id: str) -> SessionRecord | None:
        return session_with(db, session_id)

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        connection = self.searcher if query.text else self.lister
        return await connection.read("list_sessions", lambda db: _page(db, query))

    @writes
    def name_session(self, db: sqlite3.Connection, session_id: str, title: str) -> list[SessionRecord]:
        session = session_with(db, session_id)
        if session is None or not session.unnamed:
            return []
        named = {"family_id": session.family_id, "title": title, "search_title": folded(title)}
        return _changed(db, _NAME, named, session_id)

    @writes
    def change_session(self, db: sqlite3.Connection, session_id: str, change: SessionChange) -> list[SessionRecord]:
        session = session_with(db, session_id)
        if session is None:
            return []
        changed = {
            "family_id": session.family_id,
            "title": change.title,
            "search_title": None if change.title is None else folded(change.title),
            "pinned": change.pinned,
            "archived": change.archived,
        }
        return _changed(db, _CHANGE, changed, session_id)

    @writes
    def complete_session(
        self, db: sqlite3.Connection, session_id: str, at: datetime, idle_since: datetime | None = None
    ) -> Completion | None:
        since = None if idle_since is None else rfc3339(idle_since)
        changed = db.execute(_COMPLETE, {"id": session_id, "at": rfc3339(at), "idle_since": since}).rowcount
        session = session_with(db, session_id)
        return None if session is None else Completion(session, is_new=changed > 0)

    async def delete_session(self, session_id: str) -> list[str]:
        # A long session leaves the index of texts in several writes, so that others have their turn.
        while (deleted := await self.writer.write("delete_session", lambda db: _deleted(db, session_id))) is None:
            pass
        return deleted

    @reads
    def session_state(self, db: sqlite3.Connection, session_id: str, up_to_rank: int | None = None) -> bytes | None:
        row = db.execute(_STATE, {"session_id": session_id, "rank": up_to_rank}).fetchone()
        return None if row is None else row["state"]

    @writes
    def keep_summary(
        self, db: sqlite3.Connection, summary: SummaryRecord, session: SessionRecord
    ) -> SessionRecord | None:
        values = {
            "id": session.id,
            "next_rank": session.next_rank,
            "reset_rank": session.reset_rank,
            "summary_id": summary.id,
            "former": session.summary_id,
            "active_exchange_id": session.active_exchange_id,
            "active_owner": session.active_owner,
        }
        row = db.execute(_KEEP_SUMMARY, values).fetchone()
        if row is None:
            return None
        put_trail(db, [summary])
        return SESSIONS.record_of(row)

    @reads
    def count_empty_sessions(self, db: sqlite3.Connection, user_id: str) -> int:
        return count(db, "sessions WHERE user_id = ? AND next_rank = 0", [user_id])

    @writes
    def prove_write(self, db: sqlite3.Connection) -> None:
        # Fills some pages of a table that exists only for this, and belongs to no schema version.
        db.execute("CREATE TABLE IF NOT EXISTS write_proofs (id INTEGER PRIMARY KEY, filler BLOB NOT NULL) STRICT")
        db.execute("INSERT OR REPLACE INTO write_proofs VALUES (0, randomblob(?))", (PROOF_BYTES,))


def _deleted(db: sqlite3.Connection, session_id: str) -> list[str] | None:
    """The ids of the deleted sessions; None if there is more of their texts to take out of the index before."""
    if (session := session_with(db, session_id)) is None:
        return []
    doomed = [session.id, *(each.id for each in descendants(session_id, family_of(db, session.family_id)))]
    room = FORGOTTEN_CHARS
    for each in doomed:
        room -= forget_session(db, each, room)
        if room <= 0:
            return None
    # Foreign keys delete the sessions' other rows too.
    db.executemany("DELETE FROM sessions WHERE id = ?", [(each,) for each in doomed])
    return doomed


def _changed(db: sqlite3.Connection, sql: str, values: Mapping[str, object], first_id: str) -> list[SessionRecord]:
    """The sessions that `sql` changes and returns, the one with `first_id` first."""
    changed = [SESSIONS.record_of(row) for row in db.execute(sql, values).fetchall()]
    return sorted(changed, key=lambda each: each.id != first_id)


def _page(db: sqlite3.Connection, query: SessionQuery) -> SessionPage:
    # One row more than the page holds shows whether another page follows.
    parameters: dict[str, object] = {"user_id": query.user_id}
    conditions = ["true" if query.user_id is None else "user_id = :user_id"]
    if (place := query.place) is not None:
        conditions.append("(updated_at, id) < (:updated_at, :session_id)")
        parameters |= {"updated_at": rfc3339(place[0]), "session_id": place[1]}
    if query.agent_id is not None:
        conditions.append("agent_id = :agent_id")
        parameters["agent_id"] = query.agent_id
    if query.state is not None:
        conditions.append("state = :state")
        parameters["state"] = query.state
    # In rows of older servers, the two columns are NULL.
    for column, wanted in (("pinned", query.pinned), ("archived", query.archived)):
        if wanted is not None:
            conditions.append(f"{column} = TRUE" if wanted else f"{column} IS NOT TRUE")
    condition = " AND ".join(conditions)
    if query.text:
        texts = TextSearch(db, query.user_id, [folded(query.text)], only_said=False)
        with closing(texts.sessions(condition, parameters, 1)) as sessions:
            found = [session for session, _ in islice(sessions, query.limit + 1)]
    else:
        parameters["limit"] = query.limit + 1
        found = select(db, SESSIONS, f"{condition} ORDER BY updated_at DESC, id DESC LIMIT :limit", parameters)
    return SessionPage.of(found, query.limit)
