"""What a session of 10,000 messages costs beside a short one: to open it, to restore its agent, and to ask in it.

On SQLite, and on a mongo-java-server in memory or what `MONGODB_URL` names. Each session is in a database of its own;
they take turns. Opened is the last page of 40 messages, with their exchanges; restored are 20 exchanges, which is all
that the short one has; an ask is stored with its answer.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import external_services
from figures import median

from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.base import ExchangeEnd, Fence
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, MessageRecord, SessionRecord, place
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.tables import EXCHANGES, MESSAGES

SIZES = (40, 10_000)
ROUNDS, WARM_UP = 200, 20
LIMIT = 1.2
_PAGE, _PAGE_BYTES, _RESTORED = 40, 1024 * 1024, 20
_BATCH = 500
TEXT = "The quick brown fox jumps over the lazy dog, and nobody knows why it does so again. "

Store = SqliteStore | MongoStore


async def open_(store: Store, session_id: str) -> None:
    session = await store.get_session(session_id)
    assert session is not None
    page = await store.exchanges_from(session_id, max(0, session.next_rank - _PAGE), _PAGE, _PAGE_BYTES)
    await store.activities_of([exchange.id for exchange in page.exchanges])
    assert await store.messages_after(session_id, session.next_rank - _PAGE - 1, _PAGE, _PAGE_BYTES)


async def restore(store: Store, session_id: str) -> None:
    assert await store.last_exchanges(session_id, _RESTORED)


async def ask(store: Store, session_id: str) -> None:
    exchange = _exchange(session_id, 0, ExchangeStatus.RUNNING)
    begun = await store.begin_exchange(exchange, _said(Role.USER))
    fence = Fence(session_id, exchange.id, begun.session.next_rank)
    end = ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=4)
    await store.append(fence, [_said(Role.ASSISTANT)], end)


WORKS: dict[str, Callable[[Store, str], Awaitable[None]]] = {"open": open_, "restore": restore, "ask": ask}


async def measure(stores: Mapping[int, Store]) -> None:
    """Print the medians by work, for each of SIZES, and how many times the first the last one is."""
    for size, store in stores.items():
        await _fill(store, size)
    for name, work in WORKS.items():
        spent: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
        for number in range(WARM_UP + ROUNDS):
            for size in SIZES if number % 2 else SIZES[::-1]:
                wall, cpu = time.perf_counter(), time.process_time()
                await work(stores[size], str(size))
                took = (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000
                if number >= WARM_UP:
                    spent[size].append(took)
        for figure, label in enumerate(("ms", "CPU ms")):
            short, long = (median([each[figure] for each in spent[size]]) for size in SIZES)
            print(
                f"{name}: {short:.2f} {label}, with {SIZES[-1]} messages {long:.2f}, {long / short:.2f} ×", flush=True
            )


def _said(role: Role) -> MessageDraft:
    return MessageDraft(role=role, channel=Channel.FINAL, parts=[TextPart(text=TEXT)])


def _exchange(session_id: str, rank: int, status: ExchangeStatus = ExchangeStatus.OK) -> ExchangeRecord:
    return ExchangeRecord(
        id=uuid4().hex,
        session_id=session_id,
        user_id="u",
        agent_id="a",
        request_id="r",
        status=status,
        first_rank=rank,
        started_at=datetime.now(UTC),
    )


async def _fill(store: Store, size: int) -> None:
    """A session whose id is its number of messages, in exchanges of two."""
    now, session_id = datetime.now(UTC), str(size)
    exchanges = [_exchange(session_id, rank) for rank in range(0, size, 2)]
    messages: list[MessageRecord] = []
    for each in exchanges:
        drafts = [_said(Role.USER), _said(Role.ASSISTANT)]
        messages += place(drafts, session_id=session_id, exchange_id=each.id, next_rank=each.first_rank, at=now)
    await store.begin_copies()
    for first in range(0, size, _BATCH):
        await store.copy(MESSAGES, messages[first : first + _BATCH])
        if batch := exchanges[first : first + _BATCH]:
            await store.copy(EXCHANGES, batch)
    session = SessionRecord(id=session_id, user_id="u", agent_id="a", title="T", created_at=now, updated_at=now)
    grown = replace(session, next_rank=size, message_count=size, turn_count=size // 2)
    await store.copy_session(grown, [])


async def main() -> None:
    async with AsyncExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        stores: dict[int, Store] = {}
        for size in SIZES:
            stores[size] = await SqliteStore.open(directory / f"{size}.sqlite3", timeout_s=60)
            opened.push_async_callback(stores[size].aclose)
        print("SQLite")
        await measure(stores)
        url = opened.enter_context(external_services.mongodb_in_memory())
        for size in SIZES:
            stores[size] = await MongoStore.open(f"{url}{uuid4().hex}", timeout_s=60)
            opened.push_async_callback(stores[size].aclose)
        print("MongoDB")
        await measure(stores)


if __name__ == "__main__":
    asyncio.run(main())
