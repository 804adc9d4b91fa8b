"""TrustReports: the trust summaries of a user's exchanges. Few are computed at once, each in a thread."""

import asyncio
from typing import TypeVar

from agentic_backend.auth.user import User
from agentic_backend.exchange.write.tool_calls import ToolCalls
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import AuditRecord, ModuleErrorRecord, ToolCallRecord, TrailQuery
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.trust.rows import TrustRows
from agentic_backend.trust.summary import summary_of

R = TypeVar("R", AuditRecord, ModuleErrorRecord, ToolCallRecord)

# The most exchanges of one run that was resumed, and of each the records of a kind and the bytes of its messages.
_RUNS, _RECORDS, _MESSAGES_BYTES = 5, 200, 2 * 1024 * 1024
# How many summaries are computed at once, and how long in seconds one waits for others.
_PER_USER, _IN_ALL, _WAIT_S = 2, 2, 5.0


class TrustReports:
    def __init__(self, store: Store) -> None:
        self._store = store
        content = "Too many trust summaries are computed; wait until some are answered."
        self._at_once = Bulkhead(per_user=_PER_USER, in_all=_IN_ALL, wait_s=_WAIT_S, content=content)

    async def of(self, user: User, exchange_id: str) -> TrustSummary:
        """The summary of the user's stored exchange; of one that runs or waits, what there is so far.

        Raises ExchangeNotFound, and RateLimited if too many summaries are being computed.
        """
        async with self._at_once.entered(user.id):
            runs = [await self._rows_of_now(user, exchange_id)]
            while (resumed := runs[0].exchange.resumes) is not None and len(runs) < _RUNS:
                earlier = await self._store.get_exchange(resumed)
                if earlier is None:
                    break
                runs.insert(0, await self._rows(earlier))
            # In a thread, because it may look through much text.
            return await asyncio.to_thread(summary_of, runs)

    async def _rows_of_now(self, user: User, exchange_id: str) -> TrustRows:
        exchange = await owned_exchange(self._store, user.id, exchange_id)
        rows = await self._rows(exchange)
        now = await owned_exchange(self._store, user.id, exchange_id)
        # It may have ended, or been deleted, while its rows were read.
        return rows if now.status is exchange.status else await self._rows(now)

    async def _rows(self, exchange: ExchangeRecord) -> TrustRows:
        messages = await self._store.exchange_messages(exchange.id, _MESSAGES_BYTES)
        stored, is_cut = await self._records(ToolCallRecord, exchange)
        audits, lacks_audits = await self._records(AuditRecord, exchange)
        failures, lacks_failures = await self._records(ModuleErrorRecord, exchange)
        lacks_messages = bool(messages) and messages[-1].rank - messages[0].rank >= len(messages)
        # The calls of apps, which have no number, came after the answer.
        calls = {call.id: call for call in stored if _number(call) is not None}
        if not stored or not lacks_messages:
            # Records may be kept for a shorter time than messages, which number the calls only if none is missing.
            told = ToolCalls(exchange, (), lambda: exchange.started_at).add(messages)
            calls = {call.id: call for call in told} | calls
        in_order = sorted(calls.values(), key=lambda call: _number(call) or 0)
        return TrustRows(
            exchange=exchange,
            messages=messages,
            calls=in_order[-_RECORDS:],
            audits=audits,
            failures=failures,
            cut=is_cut or lacks_messages or lacks_audits or lacks_failures or len(in_order) > _RECORDS,
        )

    async def _records(self, record: type[R], exchange: ExchangeRecord) -> tuple[list[R], bool]:
        """The records of the exchange, the oldest first, and whether there are more."""
        page = await self._store.trail(TrailQuery(record, {"exchange_id": exchange.id}, limit=_RECORDS))
        return page.records[::-1], page.next_cursor is not None


def _number(call: ToolCallRecord) -> int | None:
    """Which call of its exchange it is."""
    number = call.id.rpartition(".")[2]
    return int(number) if number.isdecimal() else None
