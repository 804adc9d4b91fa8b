"""The schema of a MongoDB: its version, its migrations, and its indexes.

The document `schema` in `meta` has the `version`: the number of the last completed migration, 0 in databases of servers
that knew none; and `min_reader`: the number of the last migration that a server must know to use the database. A server
that knows fewer doesn't open it. `place` is where the running migration has come to.

A migration runs while servers of the release before use the database. So its step changes few documents, gives the same
result if it is repeated, and leaves documents that those servers can read; a release that no longer writes or reads the
old form comes later, and raises `min_reader` to this migration's number. A released migration never changes; another
one is appended.

Indexes need no migration. Those that are unique, or of a collection without documents, are made when the database is
opened; a large collection gets a new one while the servers run.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentic_backend.stores.mongo.documents import Database, Document, document, indexes, record_in
from agentic_backend.stores.mongo.driver import inserted
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.schema import SchemaTooNew, Upgraded
from agentic_backend.stores.tables import MESSAGES

_ID = {"_id": "schema"}
_BATCH = 200
_MARKS = ("inner", "reached")
# An index over a hundred million documents takes the server an hour.
_LONGEST_BUILD_S = 24 * 3600.0

_Index = tuple[str, list[tuple[str, int]], bool]


@dataclass(frozen=True, slots=True)
class Step:
    """A batch that was done: the place of its last document, None behind the end, and how many it changed."""

    place: Any
    changed: int


@dataclass(frozen=True, slots=True)
class Migration:
    name: str
    step: Callable[[Database, Any], Awaitable[Step]]
    """Does the batch behind a place, None at the beginning."""
    min_reader: int = 0
    """The last migration that a server must know to use the database from this one's beginning on."""


async def _mark_messages(database: Database, place: Any) -> Step:
    """Move the marks of a message's reach from its metadata to their own fields (see `modern` in tables)."""
    messages = database["messages"]
    behind = {} if place is None else {"_id": {"$gt": place}}
    found = await messages.find(behind, {"metadata": 1}).sort("_id", 1).limit(_BATCH).to_list(None)
    changed = 0
    for each in found:
        if any(f'"{mark}":' in each["metadata"] for mark in _MARKS) and (old := await messages.find_one(each)):
            marked = document(MESSAGES, record_in(MESSAGES, old))
            # Only if it is as it was read.
            updated = await messages.update_one(each, {"$set": {name: marked[name] for name in ("metadata", *_MARKS)}})
            changed += updated.modified_count
    return Step(found[-1]["_id"] if len(found) == _BATCH else None, changed)


MIGRATIONS: Sequence[Migration] = (Migration("marks_of_messages", _mark_messages),)


async def open_schema(database: Database) -> None:
    """Give a new database its version, or look at the one that is there, and make indexes. Raises SchemaTooNew."""
    await _checked_stamp(database)
    await _make_indexes_at_once(database)


async def version_in_words(database: Database) -> str:
    """The version of the schema that is there, and what becomes of it. Raises SchemaTooNew."""
    stamp, known = await database["meta"].find_one(_ID), len(MIGRATIONS)
    if stamp is None:
        return "no schema yet, the server makes it"
    if stamp["min_reader"] > known:
        raise SchemaTooNew(stamp["version"], known)
    migrates = f", which the server migrates to {known}" if stamp["version"] < known else ""
    return f"schema version {stamp['version']}{migrates}"


async def _checked_stamp(database: Database) -> Document:
    """The stamp; a database that has none gets one, whether it is new or older than stamps. Raises SchemaTooNew."""
    meta, known = database["meta"], len(MIGRATIONS)
    stamp = await meta.find_one(_ID)
    if stamp is None:
        is_new = await database["sessions"].find_one({}, {"_id": 1}) is None
        stamp = {**_ID, "version": known if is_new else 0, "min_reader": _min_reader(known) if is_new else 0}
        if not await inserted(meta.insert_one(stamp)):
            stamp = await meta.find_one(_ID) or stamp
    if stamp["min_reader"] > known:
        raise SchemaTooNew(stamp["version"], known)
    return stamp


def _min_reader(version: int) -> int:
    return max((migration.min_reader for migration in MIGRATIONS[:version]), default=0)


async def _make_indexes_at_once(database: Database) -> None:
    for index in await _missing_indexes(database):
        collection, _, unique = index
        if unique or await database[collection].find_one({}, {"_id": 1}) is None:
            await _make_index(database, index)


async def _make_index(database: Database, index: _Index) -> None:
    collection, keys, unique = index
    # One command each: FerretDB 1.x miscounts if several indexes of one command exist already.
    await database[collection].create_index(keys, unique=unique)


async def _missing_indexes(database: Database, *, lazy: bool = False) -> list[_Index]:
    wanted = list(indexes(lazy=lazy))
    there = {
        (collection, _key(index["key"]))
        for collection in {collection for collection, _, _ in wanted}
        for index in (await database[collection].index_information()).values()
    }
    return [index for index in wanted if (index[0], _key(index[1])) not in there]


def _key(columns: Iterable[tuple[str, Any]]) -> tuple[tuple[str, int], ...]:
    # Some servers return numbers of another type.
    return tuple((name, int(direction)) for name, direction in columns)


class Schema(Part):
    @operation
    async def upgrades_left(self, database: Database) -> int:
        stamp = await database["meta"].find_one(_ID) or {"version": 0}
        return len(MIGRATIONS[stamp["version"] :]) + len(await _missing_indexes(database))

    async def upgrade(self) -> Upgraded:
        if (migrated := await self._migrate()) is not None:
            return migrated
        if not (missing := await self._lacking()):
            return Upgraded(None, 0, 0)
        collection, keys, _ = missing[0]
        await self.driver.run_long("make_index", lambda database: _make_index(database, missing[0]), _LONGEST_BUILD_S)
        return Upgraded(f"index {collection} {'_'.join(name for name, _ in keys)}", 0, len(missing) - 1)

    async def open_application_records(self) -> None:
        for index in await self._lacking_of_lazy():
            await self.driver.run_long("make_index", partial(_make_index, index=index), _LONGEST_BUILD_S)

    @operation
    async def _lacking_of_lazy(self, database: Database) -> list[_Index]:
        return await _missing_indexes(database, lazy=True)

    @operation
    async def _lacking(self, database: Database) -> list[_Index]:
        return await _missing_indexes(database)

    @operation
    async def _migrate(self, database: Database) -> Upgraded | None:
        """One batch of the next migration; None if all are completed."""
        # Somebody may have restored a database without a stamp while the server ran.
        stamp = await _checked_stamp(database)
        version = stamp["version"]
        if version >= len(MIGRATIONS):
            return None
        migration, place = MIGRATIONS[version], stamp.get("place")
        if migration.min_reader > stamp["min_reader"]:
            await _advance(database, version, {"min_reader": migration.min_reader})
        step = await migration.step(database, place)
        is_done = step.place is None
        await _advance(database, version, {"version": version + is_done, "place": step.place})
        missing = len(MIGRATIONS) - version - is_done + len(await _missing_indexes(database))
        return Upgraded(migration.name, step.changed, missing)


async def _advance(database: Database, version: int, changes: Document) -> None:
    """Unless another instance has completed the migration."""
    await database["meta"].update_one({**_ID, "version": version}, {"$set": changes})
