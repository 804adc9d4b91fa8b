"""The versions of agents in SQLite."""

import sqlite3
from collections.abc import Sequence

from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord
from agentic_backend.stores.sqlite.operation_base import Part, first, insert, lists, reads, select, writes
from agentic_backend.stores.tables import AGENT_VERSIONS

_LATEST = """
    (agent_id, version) IN (SELECT agent_id, max(version) FROM agent_versions GROUP BY agent_id) ORDER BY agent_id
"""
_IS_THERE = "SELECT 1 FROM agent_versions WHERE agent_id = ? AND version >= ?"


class AgentVersions(Part):
    @reads
    def agents_revision(self, db: sqlite3.Connection) -> int:
        # What is written last has the highest row id, and only what is older is deleted.
        revision: int = db.execute("SELECT coalesce(max(rowid), 0) FROM agent_versions").fetchone()[0]
        return revision

    @lists
    def latest_agent_versions(self, db: sqlite3.Connection) -> list[AgentVersionRecord]:
        return select(db, AGENT_VERSIONS, _LATEST)

    @reads
    def agent_version(
        self, db: sqlite3.Connection, agent_id: str, version: int | None = None
    ) -> AgentVersionRecord | None:
        condition = "agent_id = :agent AND (:version IS NULL OR version = :version) ORDER BY version DESC"
        return first(db, AGENT_VERSIONS, condition, {"agent": agent_id, "version": version})

    @lists
    def agent_versions(
        self, db: sqlite3.Connection, agent_id: str, below: int | None, limit: int
    ) -> list[AgentVersionRecord]:
        condition = "agent_id = :agent AND (:below IS NULL OR version < :below) ORDER BY version DESC LIMIT :limit"
        return select(db, AGENT_VERSIONS, condition, {"agent": agent_id, "below": below, "limit": limit})

    @writes
    def add_agent_versions(self, db: sqlite3.Connection, versions: Sequence[AgentVersionRecord], kept: int) -> bool:
        if any(db.execute(_IS_THERE, (each.agent_id, each.version)).fetchone() for each in versions):
            return False
        insert(db, AGENT_VERSIONS, versions)
        old = [(each.agent_id, each.version - kept) for each in versions]
        db.executemany("DELETE FROM agent_versions WHERE agent_id = ? AND version <= ?", old)
        return True

    @writes
    def forget_agent(self, db: sqlite3.Connection, agent_id: str, last_version: int) -> None:
        db.execute("DELETE FROM agent_versions WHERE agent_id = ? AND version <= ?", (agent_id, last_version))
