"""The base of SqliteStore's operations: the connections, the decorators that use them, and helpers for rows.

An operation is a method that gets a connection as its first argument and runs in the connection's thread. Its decorator
picks the connection, and makes it a coroutine with a timeout that reports to the observer. The Store protocol documents
the operations.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from agentic_backend.stores.sqlite.connection import SqliteConnection
from agentic_backend.stores.tables import Table

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S", bound="Part")


class Part:
    """The base class of the store's parts."""

    def __init__(
        self,
        wall: Callable[[], datetime],
        writer: SqliteConnection,
        reader: SqliteConnection,
        lister: SqliteConnection,
        searcher: SqliteConnection,
        reporter: SqliteConnection,
    ) -> None:
        self.writer = writer
        self.reader = reader
        """Finds rows by key."""
        self.lister = lister
        """Pages by an index."""
        self.searcher = searcher
        """Searches texts. Like the reporter it may read much, so a timeout doesn't mean that the store is away."""
        self.reporter = reporter
        self._wall = wall
        """The machine's clock."""

    def now(self) -> datetime:
        return self._wall()


class _Decorator(Protocol):
    def __call__(
        self, method: Callable[Concatenate[S, sqlite3.Connection, P], T], /
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]: ...


def _operation(run_of: Callable[[Any], Callable[..., Awaitable[Any]]]) -> _Decorator:
    def decorate(
        method: Callable[Concatenate[S, sqlite3.Connection, P], T],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        name = method.__name__.removeprefix("_")

        async def operation(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            def work(db: sqlite3.Connection) -> T:
                return method(self, db, *args, **kwargs)

            result: T = await run_of(self)(name, work)
            return result

        return operation

    return decorate


writes = _operation(lambda store: store.writer.write)
"""Runs the method as one transaction: if it raises, nothing is written."""
reads = _operation(lambda store: store.reader.read)
lists = _operation(lambda store: store.lister.read)
reports = _operation(lambda store: store.reporter.read)


def columns(table: Table[Any], without: Collection[str] = ()) -> str:
    """The columns that a record is read from, for a SELECT; fields `without` their columns have their defaults."""
    return ", ".join(f"{table.name}.{name}" for name in table.names if name not in without)


def insert(db: sqlite3.Connection, table: Table[R], records: Sequence[R], *, replace: bool = False) -> None:
    rows = [table.row(record) for record in records]
    put(db, table.name, rows, "INSERT OR REPLACE" if replace else "INSERT")


def put(db: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]], verb: str = "INSERT") -> None:
    if rows:
        names = list(rows[0])
        values = ", ".join(f":{name}" for name in names)
        db.executemany(f"{verb} INTO {table} ({', '.join(names)}) VALUES ({values})", rows)


def select(
    db: sqlite3.Connection, table: Table[R], condition: str, parameters: Any = (), *, without: Collection[str] = ()
) -> list[R]:
    """The records that match `condition`: the SQL after WHERE."""
    rows = db.execute(f"SELECT {columns(table, without)} FROM {table.name} WHERE {condition}", parameters)
    return [table.record_of(row) for row in rows]


def first(db: sqlite3.Connection, table: Table[R], condition: str, parameters: Any = ()) -> R | None:
    return next(iter(select(db, table, f"{condition} LIMIT 1", parameters)), None)


def count(db: sqlite3.Connection, rows: str, parameters: Sequence[object] = ()) -> int:
    """The number of `rows`: the SQL after FROM."""
    number: int = db.execute(f"SELECT count(*) FROM {rows}", parameters).fetchone()[0]
    return number


def placeholders(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
