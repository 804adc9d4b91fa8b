"""The MongoDB schema: values of the protocol as documents and back, the collections, and their indexes.

A document is the row of its value (see rows) with the value's id as `_id`, and fields of the store's own:

- A session's `user_id` is null once it is being deleted; it counts no more then. `active_owner` is who may write for
  its active exchange: who began it, or claimed it last (see mongo_claims). `ended` is how its last exchange
  ended, `state_id` names its document in `session_states`, `reserved_rank` and `reserved_by` see mongo_batches.
- An exchange's `asked_as` is unique for what its user has asked under one `client_exchange_id`; its `holds` is its
  session's id until it has ended. Both are its own id else: indexes that skip documents are not to be had everywhere.
  Its `checkpoint` is the state that it goes on from, which may be large, and so is read by itself.

Documents of an older schema lack the fields that came later; whatever compares these compares them with null.
- A message's `batch` is the token of the attempt that brought it, `block` where it was being written.
- `last_write` is the token of the last write for a session's active exchange, and of an exchange's last pause, claim or
  end.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, Session
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence
from agentic_backend.stores.records import ExchangeRecord, KpiRecord
from agentic_backend.stores.rows import (
    EXCHANGE_FIELDS,
    Row,
    exchange_of,
    exchange_row,
    json_text,
    kpi_of,
    kpi_row,
    message_of,
    message_row,
    rfc3339,
    session_of,
    session_row,
)

Document = dict[str, Any]
Database = AsyncDatabase[Document]
"""PyMongo's; motor's has the same calls, as far as they are used here (`aggregate` differs, and is not)."""

UNENDED = ["running", "awaiting_human"]
WITHOUT_STATE = {"checkpoint": 0}
_UNRESERVED: Document = {"reserved_rank": None, "reserved_by": None}
# A document may have 16 MB, of which the rest of an exchange's needs some too.
LARGEST_STATE = 12_000_000

_LOG = logging.getLogger("agentic_backend.stores.mongo")

INDEXES: list[tuple[str, list[tuple[str, int]], bool]] = [
    ("sessions", [("user_id", 1), ("updated_at", -1), ("_id", -1)], False),
    ("sessions", [("user_id", 1), ("next_rank", 1)], False),
    ("exchanges", [("asked_as", 1)], True),
    ("exchanges", [("holds", 1)], True),
    ("exchanges", [("session_id", 1), ("first_rank", -1)], False),
    ("exchanges", [("status", 1), ("deadline", 1)], False),
    ("exchanges", [("user_id", 1), ("status", 1)], False),
    ("exchanges", [("status", 1), ("owner", 1)], False),
    ("messages", [("session_id", 1), ("rank", 1)], True),
    ("messages", [("exchange_id", 1), ("rank", 1)], False),
    ("session_states", [("session_id", 1), ("rank", 1)], False),
    ("kpi_records", [("started_at", 1)], False),
    ("kpi_records", [("user_id", 1), ("started_at", 1)], False),
]


async def make_indexes(database: Database) -> None:
    """Make the indexes that aren't there yet; it can be called again."""
    for collection, keys, unique in INDEXES:
        # One command each: FerretDB 1.x loses count when several of a command are there already.
        await database[collection].create_index(keys, unique=unique)


def session_document(session: Session, active_owner: str | None = None) -> Document:
    own = {"active_owner": active_owner, "state_id": None, "ended": None, "last_write": None}
    return {**_with_id(session_row(session)), **_UNRESERVED, **own}


def session_in(document: Mapping[str, Any] | None) -> Session | None:
    """The session of a document; None where there is none, or it is being deleted."""
    if document is None or document["user_id"] is None:
        return None
    return session_of(_picked(document, Session.model_fields))


def exchange_document(exchange: ExchangeRecord, checkpoint: Checkpoint | None = None) -> Document:
    asked = [exchange.user_id, exchange.client_exchange_id]
    return {
        **_with_id(exchange_row(exchange)),
        "checkpoint": None,
        **({} if checkpoint is None else checkpoint_changes(exchange.id, checkpoint)),
        "asked_as": exchange.id if exchange.client_exchange_id is None else json.dumps(asked),
        "holds": exchange.id if exchange.status.ended else exchange.session_id,
    }


def exchange_in(document: Mapping[str, Any]) -> ExchangeRecord:
    return exchange_of(_picked(document, EXCHANGE_FIELDS))


def checkpoint_changes(exchange_id: str, checkpoint: Checkpoint) -> Document:
    """What keeps `checkpoint` in its exchange's document; nothing, and the log tells, where it is too large."""
    if checkpoint.state is not None and len(checkpoint.state) > LARGEST_STATE:
        names = {"exchange_id": exchange_id, "bytes": len(checkpoint.state)}
        _LOG.warning("a checkpoint is too large to be kept", extra=names)
        return {}
    return {"checkpoint": checkpoint.state, "checkpoint_record": json_text(checkpoint.record)}


def message_document(message: ChatMessage, batch: str, block: int | None = None) -> Document:
    return {**message_row(message), "batch": batch, "block": block}


def message_in(document: Mapping[str, Any]) -> ChatMessage:
    return message_of(_picked(document, ChatMessage.model_fields))


def kpi_document(record: KpiRecord) -> Document:
    row = kpi_row(record)
    return {"_id": row.pop("exchange_id"), **row}


def kpi_in(document: Mapping[str, Any]) -> KpiRecord:
    return kpi_of(document)


def end_document(
    exchange_id: str,
    end: ExchangeEnd,
    at: datetime,
    state: Document | None,
    checkpoint: Checkpoint | None = None,
    token: str | None = None,
) -> Document:
    """What a session keeps of its last exchange's end at `at`; `changes` are those of the exchange's document.

    Where it was interrupted these leave its checkpoint alone; of `checkpoint` only the record is kept else.
    """
    kept: Document = {} if end.status is ExchangeStatus.INTERRUPTED else {"checkpoint": None}
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
        "kpi": None if end.kpi is None else kpi_document(end.kpi),
        "state": None if state is None else {"_id": state["_id"], "rank": state["rank"]},
    }


def held_by(fence: Fence) -> Document:
    """What the session's document has while the fence holds."""
    return {
        "_id": fence.session_id,
        "active_exchange_id": fence.exchange_id,
        "active_owner": fence.owner,
        "next_rank": fence.next_rank,
    }


def _with_id(row: Row) -> Document:
    return {"_id": row.pop("id"), **row}


def _picked(document: Mapping[str, Any], names: Iterable[str]) -> Row:
    return {name: document.get("_id" if name == "id" else name) for name in names}
