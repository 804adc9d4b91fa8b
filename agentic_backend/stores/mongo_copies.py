"""What a transfer writes into MongoDB: values as they were in another store, and counts of them (see transfer)."""

from collections.abc import Sequence
from uuid import uuid4

from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.stores.base import Checkpoint
from agentic_backend.stores.mongo_documents import (
    Database,
    Document,
    checkpoint_changes,
    exchange_document,
    kpi_document,
    message_document,
    session_document,
)
from agentic_backend.stores.records import ExchangeRecord, KpiRecord
from agentic_backend.stores.transfer import Counts


async def clear_sessions(database: Database, session_ids: Sequence[str]) -> None:
    """The sessions first, so that nothing counts any more of which a part is gone."""
    among = {"$in": list(session_ids)}
    await database["sessions"].delete_many({"_id": among})
    for collection in ("messages", "session_states", "exchanges"):
        await database[collection].delete_many({"session_id": among})


async def copy_exchanges(database: Database, exchanges: Sequence[ExchangeRecord]) -> None:
    await database["exchanges"].insert_many([exchange_document(exchange) for exchange in exchanges])


async def copy_checkpoint(database: Database, exchange_id: str, checkpoint: Checkpoint) -> None:
    if changes := checkpoint_changes(exchange_id, checkpoint):
        await database["exchanges"].update_one({"_id": exchange_id}, {"$set": changes})


async def copy_messages(database: Database, messages: Sequence[ChatMessage]) -> None:
    batch = uuid4().hex
    await database["messages"].insert_many([message_document(message, batch) for message in messages])


async def copy_session(database: Database, session: Session, state: bytes | None) -> None:
    document: Document = session_document(session)
    if state is not None:
        document["state_id"] = uuid4().hex
        kept = {"_id": document["state_id"], "session_id": session.id, "rank": session.next_rank, "state": state}
        await database["session_states"].insert_one(kept)
    await database["sessions"].insert_one(document)


async def copy_kpi_records(database: Database, records: Sequence[KpiRecord]) -> None:
    among = {"$in": [record.exchange_id for record in records]}
    await database["kpi_records"].delete_many({"_id": among})
    await database["kpi_records"].insert_many([kpi_document(record) for record in records])


async def count_sessions(database: Database, session_ids: Sequence[str]) -> Counts:
    among = {"$in": list(session_ids)}
    return Counts(
        await database["sessions"].count_documents({"_id": among}),
        await database["exchanges"].count_documents({"session_id": among}),
        await database["messages"].count_documents({"session_id": among}),
    )


async def count_kpi_records(database: Database, exchange_ids: Sequence[str]) -> int:
    return await database["kpi_records"].count_documents({"_id": {"$in": list(exchange_ids)}})
