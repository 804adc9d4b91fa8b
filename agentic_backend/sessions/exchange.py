"""Exchange: one ask and everything that it causes, from `started` to `final`.

The relay owns its task. `run` awaits the graph's task, and settles the exchange however that one ends: by itself, by a
stop, by silence, by an error, or because the process is going. It ends once, with exactly one `final`.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from datetime import datetime

from agentic_backend.errors import (
    AgenticError,
    Internal,
    Interrupted,
    ModelTimeout,
    StoreUnavailable,
)
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, HumanRequests, Started, Stream
from agentic_backend.protocol.messages import (
    ChatMessage,
    ExchangeStatus,
    FinishReason,
    Session,
    TokenUsage,
    utc_now,
)
from agentic_backend.protocol.parts import text_of
from agentic_backend.sessions.delivery import Delivery, error_message
from agentic_backend.sessions.exchange_log import ExchangeLog
from agentic_backend.sessions.graph_run import GraphRun
from agentic_backend.sessions.ledger import Ledger
from agentic_backend.sessions.recall import Recall
from agentic_backend.settings import LimitsSettings
from agentic_backend.stores.base import ExchangeEnd, FencedOut, KpiRecord
from agentic_backend.streaming.drafts import CompleteDraft
from agentic_backend.telemetry import error_text

log = logging.getLogger(__name__)

# A tool may ignore its cancellation; the exchange ends without it after this time.
_CUT_GRACE_S = 0.5
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, by whom, and under which names."""

    user_id: str
    agent_id: str
    client_exchange_id: str | None
    request_id: str
    started_at: datetime
    session: Session | None
    opening: ChatMessage


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
        self._kpi = kpi
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._cut: Outcome | None = None

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
        self._cut_with(Outcome(ExchangeStatus.INTERRUPTED, Interrupted()))

    async def run(self) -> None:
        self._kpi.exchange_started()
        asked = self._asked
        self.log.append(
            Started, client_exchange_id=asked.client_exchange_id, agent_id=asked.agent_id, session=asked.session
        )
        self.log.append(Stream, message=asked.opening)
        graph = asyncio.create_task(self._graph_run.run(asked.opening, self._delivery))
        graph.add_done_callback(lambda _: self._stir.set())
        try:
            outcome = await self._await_outcome(graph)
        except Exception as error:
            # The edge of an exchange: whatever went wrong is its own ending, and stays in the log.
            outcome = self._failed(error)
        graph.cancel()
        await self._settle(outcome)
        # The graph's task is ours to the end, though it may ignore its cancellation.
        await asyncio.wait({graph})
        if not graph.cancelled() and (late := graph.exception()) is not None and outcome.error is None:
            log.warning("a graph failed after its exchange had ended", exc_info=late, extra=self._names())

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
                async with asyncio.timeout(patience_s):
                    await self._stir.wait()

    @property
    def _patience_s(self) -> float:
        """How long the graph may give no sign of life, in seconds."""
        transcoder = self._graph_run.transcoder
        tools_run = transcoder is not None and bool(transcoder.calls)
        return self._limits.tool_timeout_s if tools_run else self._limits.model_timeout_s

    def _timeout(self) -> AgenticError:
        transcoder = self._graph_run.transcoder
        if transcoder is not None and transcoder.calls:
            return Internal("A tool did not end in time.")
        return ModelTimeout()

    async def _await_human(self, requests: HumanRequests) -> Outcome:
        """The graph has paused. Nothing but a stop ends the exchange now."""
        if self._asked.session is None:
            return Outcome(ExchangeStatus.ERROR, Internal("The agent asks for a decision, which a query can't give."))
        await self._delivery.write()
        await self._delivery.ledger.set_waiting(requests)
        self.log.append(AwaitingHuman, payload=requests)
        while self._cut is None:
            self._stir.clear()
            await self._stir.wait()
        return self._cut

    def _failed(self, error: Exception) -> Outcome:
        typed = Interrupted() if isinstance(error, FencedOut) else self._graph_run.typed(error)
        log.error(
            "exchange failed",
            exc_info=error,
            extra={
                **self._names(),
                "code": typed.code,
                "cause": error_text(error, [text_of(self._asked.opening.parts)]),
            },
        )
        status = ExchangeStatus.INTERRUPTED if isinstance(typed, Interrupted) else ExchangeStatus.ERROR
        return Outcome(status, typed)

    async def _settle(self, outcome: Outcome) -> None:
        self._delivery.close(self._closing(outcome))
        end = self._end(outcome)
        try:
            await self._delivery.write(end)
            self._delivery.show_end(end)
            self._remember(end)
        except FencedOut as error:
            end = self._end(self._failed(error))
            self._delivery.show_end(end)
        except StoreUnavailable as error:
            end = self._end(self._failed(error))
            self._delivery.show_end(end)
            self._count(end)
            await self._store_late(end)
            return
        self._count(end)

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
        if outcome.error is not None:
            error = ErrorInfo.of(outcome.error, self._asked.request_id)
            drafts.append(error_message(self._asked.agent_id, error))
        return drafts

    def _end(self, outcome: Outcome) -> ExchangeEnd:
        run, transcoder = self._graph_run, self._graph_run.transcoder
        error = ErrorInfo.of(outcome.error, self._asked.request_id) if outcome.error else None
        state = None
        if outcome.status is ExchangeStatus.OK and run.warm is not None and transcoder is not None:
            state = self._recall.session_state(run.warm, transcoder.state)
        return ExchangeEnd(
            status=outcome.status,
            ended_at=utc_now(),
            usage=transcoder.usage if transcoder else TokenUsage(),
            last_seq=self._delivery.seq_after_all + (error is not None) + 1,
            error=error,
            kpi=self._kpi_record(outcome.status),
            session_state=state,
        )

    def _kpi_record(self, status: ExchangeStatus) -> KpiRecord:
        asked, transcoder = self._asked, self._graph_run.transcoder
        first_token_at = transcoder.first_token_at if transcoder else None
        return KpiRecord(
            exchange_id=asked.opening.exchange_id,
            session_id=asked.opening.session_id,
            user_id=asked.user_id,
            agent_id=asked.agent_id,
            status=status,
            started_at=asked.started_at,
            latency_ms=round((self._clock() - self._began) * 1000),
            first_token_ms=None if first_token_at is None else round((first_token_at - self._began) * 1000),
            usage=transcoder.usage if transcoder else TokenUsage(),
            model=transcoder.model if transcoder else None,
            tools=transcoder.calls.names if transcoder else [],
            failed_tools=transcoder.calls.failed if transcoder else 0,
        )

    async def _store_late(self, end: ExchangeEnd) -> None:
        """The store is away: try until it has the end, or the process goes. Until then the session stays busy."""
        retry_s = _FIRST_RETRY_S
        while self._cut is None or self._cut.status is not ExchangeStatus.INTERRUPTED:
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, _LONGEST_RETRY_S)
            try:
                await self._delivery.ledger.write(self._delivery.unwritten, end)
                return
            except StoreUnavailable:
                continue
            except FencedOut:
                return

    def _remember(self, end: ExchangeEnd) -> None:
        run, session = self._graph_run, self._delivery.ledger.session
        if session is None or run.warm is None or run.memory is None:
            return
        state = run.transcoder.state if run.transcoder and end.status is ExchangeStatus.OK else None
        self._recall.remember(run.warm, run.memory, self.log.messages, session.next_rank, state)

    def _count(self, end: ExchangeEnd) -> None:
        assert end.kpi is not None
        first_token_s = None if end.kpi.first_token_ms is None else end.kpi.first_token_ms / 1000
        self._kpi.exchange_ended(self._asked.agent_id, end.status, self._clock() - self._began, first_token_s)
        log.info("exchange ended", extra={**self._names(), "status": str(end.status), "latency_ms": end.kpi.latency_ms})

    def _names(self) -> dict[str, object]:
        return {
            "request_id": self._asked.request_id,
            "exchange_id": self._asked.opening.exchange_id,
            "session_id": self._asked.opening.session_id,
            "agent_id": self._asked.agent_id,
        }
