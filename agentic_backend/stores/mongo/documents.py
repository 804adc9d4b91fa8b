"""MongoDB's documents for rows, the collections' indexes, and the end that a session keeps of its last exchange.

A document is the row of its record (see tables), with a key of one column as `_id`, and these additional fields:

- A session's `user_id` is null while it is being deleted; it no longer counts then. `ended` is the end of its last
  exchange, `state_id` the id of its document in `session_states`; for `reserved_rank` and `reserved_by` see batches.
- An exchange's `asked_as` is unique per user and `client_exchange_id`; its `holds` is its session's id until it has
  ended. Otherwise both are its own id, since not every server has partial indexes. Its `checkpoint` is the state from
  which it continues; it may be large, and so is read separately.
- A message's `batch` is the token of the attempt that inserted it; null if it was copied from another store.
- A document of `session_states` holds the state of a session's graphs after an exchange; `rank` was the session's next
  rank then. It `counts` once the exchange's end does. If it doesn't and is not the `state_id`, a dead writer left it.
- The contents of attachments are in GridFS: the collections `attachments.files` and `attachments.chunks`.
- Pipelines aggregate a KPI record's `at`, `figures` and `groups`, since they can't read JSON texts.
- A record of an application that a batch has prepared has the `batch`, and what becomes of it as `next`; one that the
  batch inserts has the revision 0, and does not count (see application_records).
- `last_write` is the token of the last write for a session's active exchange, and of an exchange's last pause, claim or
  end.

Documents of an older schema lack newer fields; comparisons of these fields compare with null. What has to be changed in
them is a migration (see schema).
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from pymongo.asynchronous.database import AsyncDatabase

from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, KeptState
from agentic_backend.stores.protocol.kpi_figures import FIELDS, GROUPS
from agentic_backend.stores.records import ExchangeRecord, KpiRecord, SessionRecord
from agentic_backend.stores.rows import Row, json_text, rfc3339
from agentic_backend.stores.tables import (
    EXCHANGES,
    KPI_RECORDS,
    MESSAGES,
    RECORDS_TABLES,
    SESSIONS,
    TABLES,
    Table,
)

R = TypeVar("R")
Document = dict[str, Any]
Database = AsyncDatabase[Document]
"""PyMongo's; motor's has the same calls, except that only PyMongo's `aggregate` is awaited."""

UNENDED = ["running", "awaiting_human"]
WITHOUT_STATE = {"checkpoint": 0}
NOTHING_TO_GO_ON_FROM = {"checkpoint": None, "runtime_context": None, "policy": None}
# A document may have 16 MB; the other fields of an exchange need some of it.
LARGEST_STATE = 12_000_000

_LOG = logging.getLogger("agentic_backend.stores.mongo")


def document(table: Table[R], record: R, **own: Any) -> Document:
    """The document of `record`; `own` replaces initial values of the additional fields."""
    row = _stored_row(table, table.row(record))
    return row | _OWN.get(table.name, lambda _: {})(record) | own


def record_in(table: Table[R], found: Mapping[str, Any]) -> R:
    if len(table.key) == 1:
        found = {**found, table.key[0]: found["_id"]}
    return table.record_of(found)


def session_in(found: Mapping[str, Any] | None) -> SessionRecord | None:
    """The session of a document; None if there is none, or it is being deleted."""
    if found is None or found["user_id"] is None:
        return None
    return record_in(SESSIONS, found)


def stored_name(table: Table[Any], column: str) -> str:
    return "_id" if table.key == (column,) else column


def counted(table: Table[Any]) -> Document:
    """The conditions on documents of the table that count."""
    return {"revision": {"$gt": 0}} if table in RECORDS_TABLES else {}


def asked_as(user_id: str, client_exchange_id: str) -> str:
    """The `asked_as` of the user's exchange with this id of the client's."""
    return json.dumps([user_id, client_exchange_id])


def _stored_row(table: Table[Any], row: Row) -> Document:
    return {stored_name(table, name): value for name, value in row.items()}


def _own_of_session(session: SessionRecord) -> Document:
    unreserved = {"reserved_rank": None, "reserved_by": None}
    return {**unreserved, "state_id": None, "ended": None, "last_write": None}


def _own_of_exchange(exchange: ExchangeRecord) -> Document:
    key = exchange.client_exchange_id
    return {
        "checkpoint": None,
        "asked_as": exchange.id if key is None else asked_as(exchange.user_id, key),
        "holds": exchange.id if exchange.status.ended else exchange.session_id,
    }


def _own_of_kpi(record: KpiRecord) -> Document:
    values = record.model_dump(mode="json")
    figures = {name: value(values) for name, value in FIELDS.items()}
    return {
        "at": int(record.started_at.timestamp()),
        # As floating point numbers, whose sum can't overflow.
        "figures": {name: None if value is None else float(value) for name, value in figures.items()},
        "groups": {name: values[name] for name in GROUPS},
    }


_OWN: dict[str, Callable[[Any], Document]] = {
    SESSIONS.name: _own_of_session,
    EXCHANGES.name: _own_of_exchange,
    MESSAGES.name: lambda _: {"batch": None},
    KPI_RECORDS.name: _own_of_kpi,
    **dict.fromkeys((table.name for table in RECORDS_TABLES), lambda _: {"batch": None, "next": None}),
}
_OWN_INDEXES = [
    ("exchanges", [("asked_as", 1)], True),
    ("exchanges", [("holds", 1)], True),
    ("exchanges", [("status", 1), ("owner", 1)], False),
    ("session_states", [("session_id", 1), ("rank", 1)], False),
    ("attachments.chunks", [("files_id", 1), ("n", 1)], True),
]


def indexes(*, lazy: bool = False) -> Iterator[tuple[str, list[tuple[str, int]], bool]]:
    """The indexes of all tables that are `lazy` or not: the collection, the keys, and whether they are unique."""
    for table in TABLES:
        if table.lazy != lazy:
            continue
        if len(table.key) > 1:
            yield table.name, [(column, 1) for column in table.key], True
        for columns in table.indexes.values():
            keys = [(stored_name(table, column.removeprefix("-")), column.startswith("-")) for column in columns]
            yield table.name, [(column, -1 if is_descending else 1) for column, is_descending in keys], False
        for column in table.unique:
            yield table.name, [(column, 1)], True
    if not lazy:
        yield from _OWN_INDEXES


def is_too_large(what: str, exchange_id: str, state: bytes) -> bool:
    """Whether no document holds this state of the exchange; then a warning says that `what` isn't kept."""
    if len(state) <= LARGEST_STATE:
        return False
    _LOG.warning("state too large for MongoDB", extra={"what": what, "exchange_id": exchange_id, "bytes": len(state)})
    return True


def checkpoint_changes(exchange_id: str, checkpoint: Checkpoint) -> Document:
    """The changes that store `checkpoint` in its exchange's document; none, and a warning, if it is too large."""
    if checkpoint.state is not None and is_too_large("a checkpoint", exchange_id, checkpoint.state):
        return {}
    return {"checkpoint": checkpoint.state, "checkpoint_record": json_text(checkpoint.record)}


def end_document(
    exchange_id: str,
    end: ExchangeEnd,
    at: datetime,
    state: Document | None,
    checkpoint: Checkpoint | None,
    token: str | None,
    *,
    can_go_on: bool,
) -> Document:
    """The end of its last exchange, at `at`, that a session keeps; `changes` are for the exchange's document.

    If the exchange `can_go_on`, the changes leave its stored state alone; otherwise they keep only the record of
    `checkpoint`.
    """
    kept: Document = {} if can_go_on else dict(NOTHING_TO_GO_ON_FROM)
    if kept and checkpoint is not None:
        kept["checkpoint_record"] = json_text(checkpoint.record)
    return {
        "exchange_id": exchange_id,
        "changes": {
            "status": end.status,
            "ended_at": rfc3339(at),
            "usage": json_text(end.usage),
            "error": json_text(end.error),
            "last_seq": end.last_seq,
            "owner": None,
            "deadline": None,
            "partial": None,
            "pending": None,
            "last_write": token,
            **kept,
            "holds": exchange_id,
        },
        "kpi": None if end.kpi is None else document(KPI_RECORDS, end.kpi),
        "state": None if state is None else {"_id": state["_id"], "rank": state["rank"]},
    }


def state_document(session_id: str, kept: KeptState, *, counts: bool) -> Document:
    return {
        "_id": uuid4().hex,
        "session_id": session_id,
        "rank": kept.rank,
        "exchange_id": kept.exchange_id,
        "state": kept.state,
        "counts": counts,
    }


def held_by(fence: Fence) -> Document:
    """The conditions on the session's document for a valid fence."""
    return {
        "_id": fence.session_id,
        "active_exchange_id": fence.exchange_id,
        "active_owner": fence.owner,
        "next_rank": fence.next_rank,
    }
