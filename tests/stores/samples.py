"""Values for the tests of the stores, each with an id that nothing else has, and ways to run an exchange."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from agentic_backend.protocol.messages import Channel, ExchangeStatus, MessageDraft, Role, Session, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.base import ExchangeEnd, ExchangeRecord, Fence, KpiRecord, Store, Written

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
# SQL that counts for some minutes unless it is interrupted.
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT count(*) FROM n"


def new_id() -> str:
    return uuid4().hex


def a_session(user_id: str = "ann", *, minute: int = 0, **fields: Any) -> Session:
    """A session last updated `minute` minutes after EPOCH."""
    at = EPOCH + timedelta(minutes=minute)
    values = {"id": new_id(), "agent_id": "assistant", "title": "New chat", "created_at": at, "updated_at": at}
    return Session(**(values | {"user_id": user_id} | fields))


def an_exchange(session: Session, **fields: Any) -> ExchangeRecord:
    values = {
        "id": new_id(),
        "session_id": session.id,
        "user_id": session.user_id,
        "agent_id": session.agent_id,
        "request_id": new_id(),
        "started_at": utc_now(),
    }
    return ExchangeRecord(**(values | fields))


def question(text: str = "What is it?") -> MessageDraft:
    return MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text=text)])


def answer(text: str = "It is this.") -> MessageDraft:
    return MessageDraft(role=Role.ASSISTANT, channel=Channel.FINAL, parts=[TextPart(text=text)])


def an_end(status: ExchangeStatus = ExchangeStatus.OK, **fields: Any) -> ExchangeEnd:
    values: dict[str, Any] = {"status": status, "ended_at": utc_now(), "usage": TokenUsage(), "last_seq": 9}
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


def fence_after(written: Written, exchange_id: str) -> Fence:
    return Fence(written.session.id, exchange_id, written.session.next_rank)


async def begin(store: Store, session: Session, **fields: Any) -> Fence:
    """Begin an exchange in `session`, which is stored already, and return the fence of its next write."""
    exchange = an_exchange(session, **fields)
    return fence_after(await store.begin_exchange(exchange, question()), exchange.id)


async def begin_new(store: Store, user_id: str = "ann", **fields: Any) -> Fence:
    """Begin an exchange in a session of its own."""
    session = a_session(user_id)
    exchange = an_exchange(session, **fields)
    return fence_after(await store.begin_exchange(exchange, question(), session), exchange.id)


async def run_exchanges(store: Store, session: Session, count: int) -> list[str]:
    """Run `count` exchanges of one question and one answer each; their ids."""
    ids = []
    for number in range(count):
        fence = await begin(store, session)
        await store.append(fence, [answer(f"answer {number}")], an_end())
        ids.append(fence.exchange_id)
    return ids
