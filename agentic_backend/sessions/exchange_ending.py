"""ExchangeEnding: brings an exchange that ran to its end: its last messages, its final, what it cost, what is kept.

Owned by its exchange. The end is stored once; where the store is away, it is shown at once and stored as soon as that
is back.
"""

import asyncio
import contextlib
import logging

from agentic_backend.errors import Interrupted, StoreUnavailable
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.protocol.messages import ExchangeStatus, FinishReason, TokenUsage
from agentic_backend.sessions.asked import Asked
from agentic_backend.sessions.delivery import Delivery, error_message
from agentic_backend.sessions.exchange_kpis import ExchangeKpis
from agentic_backend.sessions.graph_run import GraphRun
from agentic_backend.sessions.outcome import Outcome
from agentic_backend.sessions.recall import Recall
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, FencedOut
from agentic_backend.streaming.drafts import CompleteDraft

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 10.0


class ExchangeEnding:
    def __init__(
        self, asked: Asked, graph_run: GraphRun, delivery: Delivery, recall: Recall, kpis: ExchangeKpis
    ) -> None:
        self._asked = asked
        self._graph_run = graph_run
        self._delivery = delivery
        self._recall = recall
        self._kpis = kpis
        self._clock = asyncio.get_running_loop().time
        self.process_goes = asyncio.Event()
        """Set when there is no time left to wait for a store that is away."""

    def failed(self, error: Exception) -> Outcome:
        """The outcome of a run that came to an end with `error`, which stays in the log."""
        typed = Interrupted() if isinstance(error, FencedOut) else self._graph_run.typed(error)
        log.error("exchange failed", exc_info=error, extra={**self._asked.names, "code": typed.code})
        status = ExchangeStatus.INTERRUPTED if isinstance(typed, Interrupted) else ExchangeStatus.ERROR
        return Outcome(status, typed)

    async def settle(self, outcome: Outcome, checkpoint: Checkpoint | None) -> None:
        """Store and show the end. `checkpoint` takes the place of the exchange's last one."""
        self._delivery.close(self._last_drafts(outcome))
        end = self._end(outcome)
        try:
            await self._write(end, checkpoint)
        except Exception as error:
            # Whatever keeps it from being stored, who follows the exchange sees it end, and once.
            failure = self.failed(error)
            if outcome.error is None:
                self._delivery.close(self._error_message(failure))
            end = self._end(failure)
            self._count(end)
            if isinstance(error, FencedOut):
                # Another has ended it, and that end is shown (see Upkeep).
                return
            self._delivery.show_end(end)
            await self._store_late(end, checkpoint)
        else:
            self._delivery.show_end(end)
            self._count(end)
            self._remember(end)

    async def _write(self, end: ExchangeEnd, checkpoint: Checkpoint | None) -> None:
        try:
            await self._delivery.write(end, checkpoint)
        except StoreUnavailable:
            # Only the answer may be lost: nobody should be told of another end than the one that is stored.
            await self._delivery.write(end, checkpoint)

    def _last_drafts(self, outcome: Outcome) -> list[CompleteDraft]:
        """What was open, the final, and what a failure leaves."""
        transcoder, now = self._graph_run.transcoder, self._clock()
        drafts: list[CompleteDraft] = []
        if transcoder is not None:
            match outcome.status:
                case ExchangeStatus.OK:
                    last = transcoder.finish(now)
                case ExchangeStatus.STOPPED:
                    last = transcoder.close(now, FinishReason.CANCELLED, "Stopped before it gave a result.")
                case _:
                    last = transcoder.close(now, FinishReason.OTHER, "The exchange failed before it gave a result.")
            drafts += [draft for draft in last if isinstance(draft, CompleteDraft)]
        return drafts + self._error_message(outcome)

    def _error_message(self, outcome: Outcome) -> list[CompleteDraft]:
        if outcome.error is None:
            return []
        return [error_message(self._asked.agent_id, ErrorInfo.of(outcome.error, self._asked.request_id))]

    def _end(self, outcome: Outcome) -> ExchangeEnd:
        run, transcoder = self._graph_run, self._graph_run.transcoder
        error = ErrorInfo.of(outcome.error, self._asked.request_id) if outcome.error else None
        state = None
        if run.warm is not None and run.memory is not None and transcoder is not None:
            # However it ended: what the graph had after its last whole step is what the transcript tells of.
            state = self._recall.session_state(run.warm, run.memory, transcoder.state)
        return ExchangeEnd(
            status=outcome.status,
            usage=transcoder.usage if transcoder else TokenUsage(),
            last_seq=self._delivery.seq_after_all + (error is not None) + 1,
            error=error,
            kpi=self._kpis.record(outcome.status),
            session_state=state,
        )

    async def _store_late(self, end: ExchangeEnd, checkpoint: Checkpoint | None) -> None:
        """The store is away: try until it has the end, or the process goes. Until then the session stays busy."""
        retry_s = _FIRST_RETRY_S
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(retry_s):
                    await self.process_goes.wait()
            retry_s = min(retry_s * 2, _LONGEST_RETRY_S)
            try:
                await self._delivery.ledger.write(self._delivery.unwritten, end, checkpoint)
                log.info("exchange stored late", extra=self._asked.names)
                return
            except StoreUnavailable:
                if self.process_goes.is_set():
                    log.error("exchange not stored", extra=self._asked.names)
                    return
            except FencedOut:
                return

    def _remember(self, end: ExchangeEnd) -> None:
        run, session = self._graph_run, self._delivery.ledger.session
        if session is None or run.warm is None or run.memory is None:
            return
        self._recall.remember(run.warm, run.memory, self._delivery.log.messages, session.next_rank, end.session_state)

    def _count(self, end: ExchangeEnd) -> None:
        assert end.kpi is not None
        self._kpis.end(end.kpi, self._delivery.log.messages)
        error = {"code": end.error.code} if end.error else {}
        how = {"status": str(end.status), "latency_ms": end.kpi.latency_ms, **error}
        log.log(logging.WARNING if error else logging.INFO, "exchange ended", extra={**self._asked.names, **how})
