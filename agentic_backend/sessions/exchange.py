"""Exchange: one ask and everything that it causes, from `started` to `final`.

The relay owns its task. `run` awaits the graph's task, and settles the exchange however that one ends: by itself, by a
stop, by silence, by an error, or because the process is going. It ends once, with exactly one `final`.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from agentic_backend.errors import (
    AgenticError,
    AgentUnavailable,
    Internal,
    Interrupted,
    ModelTimeout,
    StoreUnavailable,
)
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, HumanRequests, Started, Stream
from agentic_backend.protocol.messages import (
    ExchangeStatus,
    FinishReason,
    TokenUsage,
    utc_now,
)
from agentic_backend.sessions.delivery import Delivery, error_message
from agentic_backend.sessions.exchange_kpis import Asked, ExchangeKpis
from agentic_backend.sessions.exchange_log import ExchangeLog
from agentic_backend.sessions.graph_run import GraphRun
from agentic_backend.sessions.ledger import Ledger
from agentic_backend.sessions.recall import Recall
from agentic_backend.settings import LimitsSettings
from agentic_backend.stores.base import ExchangeEnd, FencedOut
from agentic_backend.streaming.drafts import CompleteDraft

log = logging.getLogger(__name__)

# A tool may ignore its cancellation; the exchange ends without it after this time.
_CUT_GRACE_S = 0.5
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    status: ExchangeStatus
    error: AgenticError | None = None


_STOPPED = Outcome(ExchangeStatus.STOPPED)


class Exchange:
    def __init__(
        self,
        asked: Asked,
        graph_run: GraphRun,
        ledger: Ledger,
        exchange_log: ExchangeLog,
        *,
        recall: Recall,
        kpi: Kpi,
        limits: LimitsSettings,
    ) -> None:
        self._asked = asked
        self._graph_run = graph_run
        self._stir = asyncio.Event()
        """Set when there is something to do: messages to write, a cut, the graph's end."""
        self._delivery = Delivery(ledger, exchange_log, self._stir)
        self._recall = recall
        self._kpis = ExchangeKpis(kpi, asked, graph_run)
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._cut: Outcome | None = None
        self._process_goes = asyncio.Event()
        self.settled = asyncio.Event()

    @property
    def log(self) -> ExchangeLog:
        return self._delivery.log

    @property
    def owner_id(self) -> str:
        return self._asked.user_id

    @property
    def client_exchange_id(self) -> str | None:
        return self._asked.client_exchange_id

    def stop(self) -> None:
        self._cut_with(_STOPPED)

    def interrupt(self) -> None:
        self._process_goes.set()
        self._cut_with(Outcome(ExchangeStatus.INTERRUPTED, Interrupted()))

    async def run(self) -> None:
        self._kpis.start()
        asked = self._asked
        self.log.append(
            Started, client_exchange_id=asked.client_exchange_id, agent_id=asked.agent_id, session=asked.session
        )
        self.log.append(Stream, message=asked.opening)
        graph = asyncio.create_task(self._graph_run.run(asked.opening, self._delivery))
        graph.add_done_callback(lambda _: self._stir.set())
        try:
            outcome = await self._outcome(graph)
            await self._settle(outcome)
        finally:
            # Also where the process goes and cancels this task before the exchange has ended.
            graph.cancel()
            self.settled.set()
        # The graph's task is ours to the end, though it may ignore its cancellation.
        await asyncio.wait({graph})
        if not graph.cancelled() and (late := graph.exception()) is not None and outcome.error is None:
            log.warning("a graph failed after its exchange had ended", exc_info=late, extra=self._names())

    async def _outcome(self, graph: asyncio.Task[None]) -> Outcome:
        """How the exchange has ended; its graph is then cancelled, where it still runs."""
        try:
            return await self._await_outcome(graph)
        except Exception as error:
            # The edge of an exchange: whatever went wrong is its own ending, and stays in the log.
            return self._failed(error)
        finally:
            graph.cancel()

    def _cut_with(self, outcome: Outcome) -> None:
        if self._cut is None:
            self._cut = outcome
            self._stir.set()

    async def _await_outcome(self, graph: asyncio.Task[None]) -> Outcome:
        """Write what the graph gives until it ends, pauses, is cut or falls silent."""
        while not graph.done() and self._cut is None:
            self._stir.clear()
            await self._delivery.write()
            await self._stirred_or_silent()
        if self._cut is not None and not graph.done():
            graph.cancel()
            await asyncio.wait({graph}, timeout=_CUT_GRACE_S)
            return self._cut
        if graph.cancelled():
            raise Internal("The agent cancelled itself.")
        graph.result()
        transcoder = self._graph_run.transcoder
        if transcoder is not None and transcoder.waiting is not None:
            return await self._await_human(transcoder.waiting)
        return Outcome(ExchangeStatus.OK)

    async def _stirred_or_silent(self) -> None:
        """Wait until there is something to do; cut a graph that gives no sign of life."""
        while not self._stir.is_set():
            patience_s = self._graph_run.last_sign + self._patience_s - self._clock()
            if patience_s <= 0:
                self._cut_with(Outcome(ExchangeStatus.ERROR, self._timeout()))
                return
            with contextlib.suppress(TimeoutError):
                # No longer than the shortest patience: once the agent is there, another one holds.
                async with asyncio.timeout(min(patience_s, self._limits.model_timeout_s)):
                    await self._stir.wait()

    @property
    def _patience_s(self) -> float:
        """How long the graph may give no sign of life, in seconds."""
        transcoder = self._graph_run.transcoder
        if transcoder is None:
            return self._graph_run.start_timeout_s
        return self._limits.tool_timeout_s if transcoder.calls else self._limits.model_timeout_s

    def _timeout(self) -> AgenticError:
        transcoder = self._graph_run.transcoder
        if transcoder is None:
            return AgentUnavailable()
        return Internal("A tool did not end in time.") if transcoder.calls else ModelTimeout()

    async def _await_human(self, requests: HumanRequests) -> Outcome:
        """The graph has paused. Nothing but a stop ends the exchange now."""
        if self._asked.session is None:
            return Outcome(ExchangeStatus.ERROR, Internal("The agent asks for a decision, which a query can't give."))
        await self._delivery.write()
        await self._delivery.ledger.set_waiting(requests, await self._graph_run.checkpoint())
        self.log.append(AwaitingHuman, payload=requests)
        while self._cut is None:
            self._stir.clear()
            await self._stir.wait()
        return self._cut

    def _failed(self, error: Exception) -> Outcome:
        typed = Interrupted() if isinstance(error, FencedOut) else self._graph_run.typed(error)
        log.error("exchange failed", exc_info=error, extra={**self._names(), "code": typed.code})
        status = ExchangeStatus.INTERRUPTED if isinstance(typed, Interrupted) else ExchangeStatus.ERROR
        return Outcome(status, typed)

    async def _settle(self, outcome: Outcome) -> None:
        self._delivery.close(self._closing(outcome))
        end = self._end(outcome)
        try:
            await self._delivery.write(end)
        except Exception as error:
            # Whatever keeps it from being stored, who follows the exchange sees it end, and once.
            failure = self._failed(error)
            if outcome.error is None:
                self._delivery.close(self._error_message(failure))
            end = self._end(failure)
            self._delivery.show_end(end)
            self._count(end)
            if not isinstance(error, FencedOut):
                await self._store_late(end)
        else:
            self._delivery.show_end(end)
            self._count(end)
            self._remember(end)

    def _closing(self, outcome: Outcome) -> list[CompleteDraft]:
        """The last messages: what was open, the final, and what a failure leaves."""
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
            ended_at=utc_now(),
            usage=transcoder.usage if transcoder else TokenUsage(),
            last_seq=self._delivery.seq_after_all + (error is not None) + 1,
            error=error,
            kpi=self._kpis.record(outcome.status),
            session_state=state,
        )

    async def _store_late(self, end: ExchangeEnd) -> None:
        """The store is away: try until it has the end, or the process goes. Until then the session stays busy."""
        retry_s = _FIRST_RETRY_S
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(retry_s):
                    await self._process_goes.wait()
            retry_s = min(retry_s * 2, _LONGEST_RETRY_S)
            try:
                await self._delivery.ledger.write(self._delivery.unwritten, end)
                log.info("exchange stored late", extra=self._names())
                return
            except StoreUnavailable:
                if self._process_goes.is_set():
                    log.error("exchange not stored", extra=self._names())
                    return
            except FencedOut:
                return

    def _remember(self, end: ExchangeEnd) -> None:
        run, session = self._graph_run, self._delivery.ledger.session
        if session is None or run.warm is None or run.memory is None:
            return
        self._recall.remember(run.warm, run.memory, self.log.messages, session.next_rank, end.session_state)

    def _count(self, end: ExchangeEnd) -> None:
        assert end.kpi is not None
        self._kpis.end(end.kpi, self.log.messages)
        error = {"code": end.error.code} if end.error else {}
        how = {"status": str(end.status), "latency_ms": end.kpi.latency_ms, **error}
        log.log(logging.WARNING if error else logging.INFO, "exchange ended", extra={**self._names(), **how})

    def _names(self) -> dict[str, object]:
        return {
            "request_id": self._asked.request_id,
            "exchange_id": self._asked.opening.exchange_id,
            "session_id": self._asked.opening.session_id,
            "agent_id": self._asked.agent_id,
        }
