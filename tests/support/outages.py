"""Checks an exchange before the store goes away, while it is away, and after it is back."""

import asyncio
import json

from agentic_backend.exchange.past.history import restore_exchange
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.records import ExchangeRecord
from support.chat_client import check_calls, check_exchange, final_text
from support.phrase_model import check_history
from support.recorded_agents import eventually, metric
from support.sessions import PATIENCE_S, Event, Sessions, events_of


async def words_are_kept(sessions: Sessions, exchange_id: str) -> ExchangeRecord:
    """Wait until both words of a held model are stored, which may be written one by one; the exchange with them."""
    async with asyncio.timeout(PATIENCE_S):
        record = await sessions.record(exchange_id)
        while [text.text for text in record.partial] != ["one two "]:
            await asyncio.sleep(0.05)
            record = await sessions.record(exchange_id)
    return record


async def shows_no_end(sessions: Sessions, log: ExchangeLog) -> None:
    """Wait until the exchange has failed to store its end; check that it shows exactly the stored messages."""
    refused = sessions.store.refused.count("append")
    await eventually(lambda: sessions.store.refused.count("append") > refused + 2)
    await eventually(lambda: metric(sessions.kpi, "chat_retries_total", dependency="store") > 1)
    assert log.final is None and sessions.relay.running(log.exchange_id) is not None
    shown = [json.loads(event.encode()) for event in log.read(0)]
    streamed = [event["message"] for event in shown if event["type"] == "stream"]
    assert streamed == await sessions.stored(log.session_id)


async def ends_as_stored(sessions: Sessions, log: ExchangeLog, status: str) -> list[Event]:
    """Check that the exchange ends as stored after the store is back; return its messages."""
    events = await events_of(log)
    final = events[-1]
    assert [event["type"] for event in events].count("final") == 1 and final["status"] == status
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    session = await sessions.session(log.session_id)
    assert session.active_exchange_id is None, "a final is shown once its end is stored"
    record = await sessions.record(log.exchange_id)
    assert record.ended_at is not None
    assert (record.status, record.last_seq) == (status, final["seq"])
    rows = await sessions.store.real.exchange_messages(log.exchange_id)
    stored = [row.shown().model_dump(mode="json") for row in rows]
    assert stored == final["messages"]
    assert session.next_rank == session.message_count == len(await sessions.stored(session.id))
    check_calls(stored)
    check_history(restore_exchange(rows))
    return stored


async def goes_on(sessions: Sessions, session_id: str | None) -> None:
    events = await sessions.ask("and now?", session_id=session_id, agent_id="echo")
    check_exchange(events)
    assert final_text(events) == "echo: and now?"
    assert metric(sessions.kpi, "chat_running_exchanges") == 0
