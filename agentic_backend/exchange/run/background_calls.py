"""BackgroundCalls: the work of tools that goes on after their calls are acknowledged.

One per process; it owns the tasks, bounds them in number and time, and cancels and awaits them in `aclose`. A work's
result goes into the record of its call, once its exchange stores nothing more; then the session's subscribers are told,
and the session's next prompt says so (see background_reports). The record names the instance that runs the work: what a
crash has cut is closed by another instance, or by the same one after its restart.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from langchain_core.tools import ToolException

from agentic_backend.agents.background import Work
from agentic_backend.agents.runtime_context import RuntimeContext, make_current
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.disclosure.readable_errors import readable_errors
from agentic_backend.errors import AgenticError
from agentic_backend.exchange.end.outages import for_seconds, until_stored
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.write.tool_calls import LONGEST
from agentic_backend.kpi import Kpi
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.streaming.content.conversion import bounded
from agentic_backend.text.normal_form import clean
from agentic_backend.tracing.spans import context_of_call

log = logging.getLogger(__name__)

_PAGE = 200
_STORES_FOR_S = 60.0
"""How long the end of a work is tried to be stored."""
_CLOSES_FOR_S = 2.0


@dataclass(frozen=True, slots=True)
class _Call:
    context: RuntimeContext
    name: str
    call_id: str
    session_id: str
    work: Work = field(repr=False)

    @property
    def id(self) -> str:
        return f"{self.context.exchange_id}.{self.call_id}"


@dataclass(frozen=True, slots=True)
class _Outcome:
    state: Literal["success", "error"]
    text: str = field(repr=False)


_LOST = _Outcome("error", "The server went away before the tool gave a result.")


class BackgroundCalls:
    def __init__(self, instance: Instance, store: Store, relay: Relay, limits: LimitsSettings, kpi: Kpi) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay
        self._limits = limits
        self._retried = kpi.dependencies.store_retried
        self._calls: dict[asyncio.Task[None], _Call] = {}
        """What runs, by its task."""
        self._running: Counter[str] = Counter()
        """How much runs, by user id."""

    def start(self, context: RuntimeContext, name: str, call_id: str, work: Work) -> str:
        """Begin `work`; return its id. Raises ToolException if too much runs for the user."""
        user_id, most = context.user_id, self._limits.background_per_user
        if self._running[user_id] >= most:
            raise ToolException(f"No more than {most} tools may run in the background at once; wait for one of them.")
        assert context.session_id is not None, "a query has no background"
        call = _Call(context, name, call_id, context.session_id, work)
        self._running[user_id] += 1
        # An empty context, so that LangChain doesn't take this for a part of the run.
        task = asyncio.create_task(self._run(call), context=context_of_call())
        self._calls[task] = call
        task.add_done_callback(self._let_go)
        return call.id

    async def close_left(self, limit: int) -> int:
        """Close at most `limit` calls as failed that no instance runs any more; return how many."""
        pending = await self._pending()
        # After the records: whoever has begun one of them had its first beat before.
        beats = await self._store.beats()
        left = [record for record in pending if not self._is_running(record, beats)][:limit]
        for record in left:
            # Read again: it may have ended meanwhile.
            await self._settle(record, _LOST)
        return len(left)

    async def _pending(self) -> list[ToolCallRecord]:
        """The records of all that runs in the background on any instance."""
        found: list[ToolCallRecord] = []
        query = TrailQuery(ToolCallRecord, {"state": "pending"}, limit=_PAGE)
        while True:
            page = await self._store.trail(query)
            found += [record for record in page.records if record.runs_on is not None]
            if page.next_cursor is None:
                return found
            query = replace(query, cursor=page.next_cursor)

    def _is_running(self, record: ToolCallRecord, instances: Collection[str]) -> bool:
        if record.runs_on != self._instance.id:
            return record.runs_on in instances
        return _place(record) in map(_place, self._calls.values())

    def forget(self, user_id: str) -> None:
        """Cancel what runs for the user, whose data are being deleted."""
        for task, call in self._calls.items():
            if call.context.user_id == user_id:
                task.cancel()

    async def aclose(self) -> None:
        for task in self._calls:
            task.cancel()
        if self._calls:
            # With a timeout: a tool may ignore its cancellation.
            await asyncio.wait(self._calls, timeout=_CLOSES_FOR_S)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        user_id = self._calls.pop(task).context.user_id
        self._running[user_id] -= 1
        if not self._running[user_id]:
            del self._running[user_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("end of a background tool not stored", exc_info=error)

    async def _run(self, call: _Call) -> None:
        make_current(call.context)
        outcome = _Outcome("error", "The server stopped before the tool gave a result.")
        try:
            outcome = await self._outcome(call)
            if (running := self._relay.running(call.context.exchange_id)) is not None:
                # Until then its exchange may still write the record.
                await running.settled.wait()
        except asyncio.CancelledError:
            # The process goes: one last write, which `aclose` waits for.
            await self._settle(call, outcome)
            raise
        await self._settle(call, outcome)

    async def _outcome(self, call: _Call) -> _Outcome:
        timeout_s = self._limits.background_timeout_s
        try:
            async with served_timeout(timeout_s):
                with readable_errors():
                    return _Outcome("success", await call.work())
        except TimeoutError:
            return _Outcome("error", f"The tool took longer than {timeout_s:g} seconds.")
        except (ToolException, AgenticError) as error:
            return _Outcome("error", str(error))
        except Exception as error:
            # An author's tool may raise anything; its text may quote what people said.
            told = {"tool": call.name, "exchange_id": call.context.exchange_id, "session_id": call.session_id}
            log.error("background tool failed", exc_info=error, extra=told)
            return _Outcome("error", "The tool failed.")

    async def _settle(self, call: _Call | ToolCallRecord, outcome: _Outcome) -> None:
        """Store how `call` has ended, and tell the session's subscribers."""
        record = await until_stored(lambda: self._pending_record(call), for_seconds(_STORES_FOR_S), self._retried)
        if record is None:
            # Deleted with its session, or closed already.
            return
        now, text = self._store.now(), bounded(clean(outcome.text), LONGEST)
        is_success = outcome.state == "success"
        ended = replace(
            record,
            state=outcome.state,
            result=text if is_success else None,
            error=None if is_success else text,
            completed_at=now,
            duration_ms=max(0, round((now - record.at).total_seconds() * 1000)),
            runs_on=None,
            reported_in="",
        )
        await until_stored(lambda: self._store.add_trail([ended]), for_seconds(_STORES_FOR_S), self._retried)
        session = await self._store.get_session(record.session_id)
        if session is not None:
            self._relay.session_changed(session.shown())

    async def _pending_record(self, call: _Call | ToolCallRecord) -> ToolCallRecord | None:
        """The record of the exchange's last call with this id, if it is pending."""
        exchange_id, call_id = _place(call)
        where = {"session_id": call.session_id, "exchange_id": exchange_id, "call_id": call_id}
        page = await self._store.trail(TrailQuery(ToolCallRecord, where, limit=1))
        return next((record for record in page.records if record.state == "pending"), None)


def _place(call: _Call | ToolCallRecord) -> tuple[str, str]:
    """The ids of the exchange and of the call."""
    return (call.context.exchange_id if isinstance(call, _Call) else call.exchange_id), call.call_id
