"""ExchangeEnding: brings an exchange that ran to its end: its last messages, its final, what it cost, what is kept.

Owned by its exchange. An end is shown once it is stored, and never before: while the store is away, the exchange goes
on trying. Where another instance has ended the exchange, that end is shown. Where the process goes first, none is, and
recovery ends the exchange from what is stored.
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
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.graph_run import GraphRun
from agentic_backend.sessions.outages import until_stored
from agentic_backend.sessions.outcome import Outcome
from agentic_backend.sessions.recall import Recall
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, FencedOut
from agentic_backend.streaming.drafts import CompleteDraft

log = logging.getLogger(__name__)

# While the process goes: an answer may get lost then too.
_LAST_TRIES, _LAST_TRIES_EVERY_S = 3, 0.1


class ExchangeEnding:
    def __init__(
        self,
        asked: Asked,
        graph_run: GraphRun,
        delivery: Delivery,
        *,
        recall: Recall,
        kpis: ExchangeKpis,
        views: ExchangeViews,
    ) -> None:
        self._asked = asked
        self._graph_run = graph_run
        self._delivery = delivery
        self._recall = recall
        self._kpis = kpis
        self._views = views
        self._clock = asyncio.get_running_loop().time
        self.process_goes = asyncio.Event()
        """Set when there is no time left to wait for a store that is away."""
        self._last_tries = _LAST_TRIES

    def failed(self, error: Exception) -> Outcome:
        """The outcome of a run that came to an end with `error`, which stays in the log."""
        typed = Interrupted() if isinstance(error, FencedOut) else self._graph_run.typed(error)
        log.error("exchange failed", exc_info=error, extra={**self._asked.names, "code": typed.code})
        status = ExchangeStatus.INTERRUPTED if isinstance(typed, Interrupted) else ExchangeStatus.ERROR
        return Outcome(status, typed)

    async def settle(self, outcome: Outcome, checkpoint: Checkpoint | None) -> None:
        """Store the end, then show it. `checkpoint` takes the place of the exchange's last one."""
        self._delivery.close(self._last_drafts(outcome))
        end = self._end(outcome)
        try:
            await until_stored(lambda: self._delivery.write(end, checkpoint), self.time_left)
        except FencedOut as error:
            await self._show_stored(error)
        except Exception as error:
            # Also a mistake of the store's own: once the lease is over, it is ended from what is stored.
            code = error.code if isinstance(error, StoreUnavailable) else None
            names = {**self._asked.names, "status": str(end.status), "code": code}
            log.error("exchange left to recovery", exc_info=None if code else error, extra=names)
            self._kpis.leave()
        else:
            self._delivery.show_end(end)
            self._count(end)
            self._remember(end)

    async def time_left(self, longest_s: float) -> bool:
        """Wait so long, or until the process goes; False where it has been going for as long as it can wait."""
        if self.process_goes.is_set():
            self._last_tries -= 1
            await asyncio.sleep(_LAST_TRIES_EVERY_S)
            return self._last_tries >= 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self.process_goes.wait()
        return True

    async def _show_stored(self, error: FencedOut) -> None:
        """Another has ended the exchange, or goes on with it: what the store has of it is what its clients see."""
        self._kpis.leave()
        try:
            is_stored = await until_stored(lambda: self._views.refresh(self._delivery.log), self.time_left)
        except StoreUnavailable:
            log.error("the end of an exchange could not be read", extra=self._asked.names)
            return
        if not is_stored:
            # It was deleted with its session: nothing is stored that a final could contradict.
            self._delivery.show_end(self._end(self.failed(error)))

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
