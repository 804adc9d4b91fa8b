"""Values for the tests of the stores, each with an id that nothing else has, and ways to run an exchange."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

from agentic_backend.protocol.events import Choice, HumanRequest, HumanRequests, PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart, text_of
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, Pause, Store, Written
from agentic_backend.stores.lineage import lineage_at
from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord, VersionAction, version_id
from agentic_backend.stores.protocol.application_records import ApplicationRecord, RecordWrite
from agentic_backend.stores.protocol.items import item_id
from agentic_backend.stores.protocol.kpi_figures import FIELDS, GROUPS, Aggregation, KpiBucket, KpiQuery
from agentic_backend.stores.protocol.partials import PartialPiece
from agentic_backend.stores.records import (
    AttachmentRecord,
    CheckpointKind,
    CheckpointRecord,
    ExchangeRecord,
    HumanDecision,
    ItemRecord,
    KpiRecord,
    MessageDraft,
    SessionRecord,
)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PENDING = HumanRequests(
    title="Approve?",
    requests=[
        HumanRequest(
            interrupt_id="i",
            call_id="c",
            name="send",
            args={"to": None, "amount": 1.5},
            args_sha256="0" * 64,
            choices=[Choice(id="a", label="A")],
            allowed=["approve", "edit"],
        )
    ],
    expires_at=EPOCH,
)
CONTENT = bytes(range(256)) * 4_000
"""The content of an attachment."""
# SQL that counts for some minutes unless it is interrupted.
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT count(*) FROM n"


def new_id() -> str:
    return uuid4().hex


def a_session(user_id: str = "ann", *, minute: int = 0, **fields: Any) -> SessionRecord:
    """A session last updated `minute` minutes after EPOCH."""
    at = EPOCH + timedelta(minutes=minute)
    values = {"id": new_id(), "agent_id": "assistant", "title": "New chat", "created_at": at, "updated_at": at}
    return SessionRecord(**(values | {"user_id": user_id} | fields))


def an_exchange(session: SessionRecord, **fields: Any) -> ExchangeRecord:
    values = {
        "id": new_id(),
        "session_id": session.id,
        "user_id": session.user_id,
        "agent_id": session.agent_id,
        "request_id": new_id(),
        "started_at": utc_now(),
    }
    return ExchangeRecord(**(values | fields))


def an_attachment(
    content: bytes = CONTENT, user_id: str = "ann", *, minute: int = 0, **fields: Any
) -> AttachmentRecord:
    values = {
        "name": "größe.png",
        "mime": "image/png",
        "size": len(content),
        "room": len(content),
        "sha256": sha256(content).hexdigest(),
    }
    at = EPOCH + timedelta(minutes=minute)
    return AttachmentRecord(**({"id": new_id(), "user_id": user_id, "created_at": at} | values | fields))


async def in_pieces(content: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def question(text: str = "What is it?") -> MessageDraft:
    return MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text=text)])


def answer(text: str = "It is this.") -> MessageDraft:
    return MessageDraft(role=Role.ASSISTANT, channel=Channel.FINAL, parts=[TextPart(text=text)])


def an_end(status: ExchangeStatus = ExchangeStatus.OK, **fields: Any) -> ExchangeEnd:
    values: dict[str, Any] = {"status": status, "usage": TokenUsage(), "last_seq": 9}
    return ExchangeEnd(**(values | fields))


def a_kpi(user_id: str = "ann", *, minute: int = 0, **fields: Any) -> KpiRecord:
    values = {
        "exchange_id": new_id(),
        "session_id": None,
        "agent_id": "assistant",
        "status": ExchangeStatus.OK,
        "started_at": EPOCH + timedelta(minutes=minute),
        "latency_ms": 1200,
        "first_token_ms": 80,
        "usage": TokenUsage(input_tokens=3, output_tokens=4, total_tokens=7),
        "model": "scripted",
        "tools": ["search", "search"],
        "failed_tools": 1,
    }
    return KpiRecord(**(values | {"user_id": user_id} | fields))


def a_checkpoint(state: bytes | None = b"state", **fields: Any) -> Checkpoint:
    values = {"kind": CheckpointKind.TOOL_COMPLETION, "at": EPOCH, "exchange_id": new_id(), "request_id": new_id()}
    return Checkpoint(CheckpointRecord(**(values | fields)), state)


def a_pause(**fields: Any) -> Pause:
    values: dict[str, Any] = {
        "pending": PENDING,
        "checkpoint": a_checkpoint(b"paused", kind=CheckpointKind.APPROVAL_PENDING),
        "deadline": None,
        "usage": TokenUsage(input_tokens=1, output_tokens=2, total_tokens=3),
        "last_seq": 7,
        "ran_ms": 1500,
        "first_token_ms": 80,
    }
    return Pause(**(values | fields))


def a_decision(interrupt_id: str = "i", **fields: Any) -> HumanDecision:
    values: dict[str, Any] = {"interrupt_id": interrupt_id, "action": "approve", "by": "ann", "at": EPOCH}
    return HumanDecision(**(values | fields))


def a_partial(text: str = "It is") -> PartialText:
    return PartialText(block=0, channel=Channel.FINAL, text=text)


def a_piece(fence: Fence, owner: str, number: int, text: str, block: int = 0) -> PartialPiece:
    grown = PartialText(block=block, channel=Channel.FINAL, text=text)
    return PartialPiece.of(fence.session_id, fence.exchange_id, owner, number, grown)


def fence_after(written: Written, exchange_id: str, owner: str | None = None) -> Fence:
    return Fence(written.session.id, exchange_id, written.session.next_rank, owner)


async def begin(store: Store, session: SessionRecord, **fields: Any) -> Fence:
    """Begin an exchange in `session`, which is stored already, and return the fence of its next write."""
    exchange = an_exchange(session, **fields)
    return fence_after(await store.begin_exchange(exchange, question()), exchange.id, exchange.owner)


async def begin_new(store: Store, user_id: str = "ann", **fields: Any) -> Fence:
    """Begin an exchange in a session of its own."""
    session = a_session(user_id)
    exchange = an_exchange(session, **fields)
    return fence_after(await store.begin_exchange(exchange, question(), session), exchange.id, exchange.owner)


async def begin_waiting(store: Store, pause: Pause | None = None) -> ExchangeRecord:
    """An exchange in a session of its own, which waits."""
    fence = await begin_new(store, owner="one")
    await store.set_waiting(fence, pause or a_pause())
    return await stored(store, fence.exchange_id)


async def stored(store: Store, exchange_id: str) -> ExchangeRecord:
    record = await store.get_exchange(exchange_id)
    assert record is not None
    return record


async def run_exchanges(store: Store, session: SessionRecord, count: int) -> list[str]:
    """Run `count` exchanges of one question and one answer each; their ids."""
    ids = []
    for number in range(count):
        fence = await begin(store, session)
        await store.append(fence, [answer(f"answer {number}")], an_end())
        ids.append(fence.exchange_id)
    return ids


def a_kpi_query(user_id: str | None, **fields: Any) -> KpiQuery:
    """Of the day of EPOCH, by the second and by everything that there is to group by: one bucket for each record."""
    values: dict[str, Any] = {
        "start": EPOCH,
        "end": EPOCH + timedelta(days=1),
        "seconds": 1,
        "groupby": GROUPS,
        "aggregations": tuple(Aggregation(field, "sum") for field in FIELDS),
        "limit": 1000,
    }
    return KpiQuery(user_id, **(values | fields))


async def kpis_of(store: Store, user_id: str | None) -> list[KpiBucket]:
    return await store.kpi_figures(a_kpi_query(user_id))


def as_kpis(*records: KpiRecord) -> list[KpiBucket]:
    """What `kpis_of` tells of these records, given by time."""
    return [
        KpiBucket(
            int(record.started_at.timestamp()),
            (record.agent_id, record.status.value, record.model, record.session_id, record.user_id),
            (
                record.latency_ms,
                record.first_token_ms,
                record.usage.input_tokens,
                record.usage.output_tokens,
                record.usage.total_tokens,
                len(record.tools),
                record.failed_tools,
            ),
        )
        for record in records
    ]


def an_item(namespace: str, key: str, value: str = "{}", *, owner: str = "ann", minute: int = 0) -> ItemRecord:
    at = EPOCH + timedelta(minutes=minute)
    return ItemRecord(
        id=item_id(owner, namespace, key),
        owner=owner,
        namespace=namespace,
        key=key,
        value=value,
        value_bytes=len(value.encode()),
        created_at=at,
        updated_at=at,
    )


def a_branch(session: SessionRecord, rank: int, **fields: Any) -> SessionRecord:
    """A branch of `session`, which is as stored, from `rank` on."""
    lineage = lineage_at(session, rank)
    values: dict[str, Any] = {
        "id": new_id(),
        "parent": lineage[-1],
        "root_id": session.family_id,
        "lineage": lineage,
        "created_at": utc_now(),
        "next_rank": rank,
        "message_count": rank,
        "active_exchange_id": None,
        "active_owner": None,
        "turn_count": 0,
        "summary_id": None,
    }
    return replace(session, **(values | fields))


async def fork(store: Store, session_id: str, rank: int, **fields: Any) -> SessionRecord:
    """Fork the session at `rank`; the branch as stored."""
    session = await store.get_session(session_id)
    assert session is not None
    forked = await store.fork_session(a_branch(session, rank, **fields), None)
    assert forked is not None
    return forked


async def texts(store: Store, session_id: str) -> list[str]:
    """The texts of a session's messages, whose ranks have no gap."""
    messages = await store.messages_after(session_id, -1, 1000)
    assert [message.rank for message in messages] == list(range(len(messages)))
    return [text_of(message.parts) for message in messages]


def an_agent_version(
    agent_id: str, version: int, action: VersionAction = "changed", author: str = "ann"
) -> AgentVersionRecord:
    return AgentVersionRecord(
        id=version_id(agent_id, version),
        agent_id=agent_id,
        version=version,
        action=action,
        author=author,
        at=EPOCH + timedelta(minutes=version),
        enabled=version % 2 == 1,
        yaml=f"id: {agent_id}\n# größer {version}\n",
    )


def a_record(key: str, owner: str = "ann", **fields: Any) -> ApplicationRecord:
    """A new record of an application's kind `notes:note`; `minute` is when it was written."""
    at = EPOCH + timedelta(minutes=fields.pop("minute", 0))
    record_id = fields.get("id", f"notes:note {owner} {key}")
    values: dict[str, Any] = {
        "id": record_id,
        "kind": "notes:note",
        "key": key,
        "user_id": owner,
        "session_id": None,
        "created_at": at,
        "updated_at": at,
        "revision": 1,
        "version": 1,
        "layout": "a",
        "value": {"text": key},
        "unique_1": record_id,
        "unique_2": record_id,
    }
    return ApplicationRecord(**{**values, **fields})


def added(*records: ApplicationRecord, most: int = 1_000) -> list[RecordWrite]:
    """The writes that insert these records."""
    return [RecordWrite(record, most=most, among=record.id.removesuffix(record.key)) for record in records]
