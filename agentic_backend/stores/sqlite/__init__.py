"""The Store on SQLite."""

from agentic_backend.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
