"""Exchange: a run of one ask and everything that it causes, to its end or until it waits for a person.

The relay owns its task. `run` awaits the graph's task, and settles the exchange however that one ends: by itself, by a
stop, by silence, by an error, or because the process is going. An exchange ends once, with exactly one `final`. While
it waits, nobody runs it: all of it is in the store, and any instance goes on with it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import (
    AgenticError,
    AgentUnavailable,
    ApprovalNotFound,
    Internal,
    Interrupted,
    ModelTimeout,
    StoreUnavailable,
)
from agentic_backend.kpi import Kpi
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.protocol.events import AwaitingHuman, Started, Stream
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.sessions.asked import Asked
from agentic_backend.sessions.delivery import Delivery
from agentic_backend.sessions.exchange_ending import ExchangeEnding
from agentic_backend.sessions.exchange_kpis import ExchangeKpis
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.graph_run import Drained, GraphRun
from agentic_backend.sessions.ledger import Ledger
from agentic_backend.sessions.outages import until_stored
from agentic_backend.sessions.outcome import OK, PAUSED, STOPPED, Outcome
from agentic_backend.sessions.recall import Recall
from agentic_backend.stores.base import Checkpoint, Pause
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord
from agentic_backend.streaming.interrupts import asked_again

log = logging.getLogger(__name__)

# A tool may ignore its cancellation; the exchange ends without it after this time. It is less when the process goes:
# the end has still to be stored and told.
_CUT_GRACE_S, _GOING_CUT_GRACE_S = 0.5, 0.2
# An agent works on for so long while nothing of what it does can be stored.
LONGEST_OUTAGE_S = 60.0
_LONGEST_PARTIAL_OUTPUT = 2_000


class Exchange:
    def __init__(
        self,
        asked: Asked,
        graph_run: GraphRun,
        ledger: Ledger,
        exchange_log: ExchangeLog,
        *,
        recall: Recall,
        views: ExchangeViews,
        kpi: Kpi,
        limits: LimitsSettings,
        stop_elsewhere: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        """`stop_elsewhere` asks another instance, which goes on with the exchange, to stop it.

        `now` is the time that rows get.
        """
        self._asked = asked
        self._graph_run = graph_run
        self._stir = asyncio.Event()
        """Set when there is something to do: messages to write, a cut, the graph's end."""
        self._delivery = Delivery(ledger, exchange_log, self._stir, self._checkpoint_at)
        self._kpis = ExchangeKpis(kpi, asked, graph_run)
        self._ending = ExchangeEnding(asked, graph_run, self._delivery, recall=recall, kpis=self._kpis, views=views)
        self._limits = limits
        self._stop_elsewhere = stop_elsewhere
        self._now = now
        self._clock = asyncio.get_running_loop().time
        self._cut: Outcome | None = None
        self.settled = asyncio.Event()

    @property
    def log(self) -> ExchangeLog:
        return self._delivery.log

    @property
    def client_exchange_id(self) -> str | None:
        return self._asked.client_exchange_id

    def stop(self) -> None:
        self._cut_with(STOPPED)

    def drain(self) -> None:
        self._graph_run.drain()

    def interrupt(self) -> None:
        self._ending.process_goes.set()
        self._cut_with(Outcome(ExchangeStatus.INTERRUPTED, Interrupted()))

    async def run(self) -> None:
        self._kpis.start()
        if self.log.last_seq == 0:
            self._show_beginning()
        graph = asyncio.create_task(self._graph_run.run(self._asked.opening, self._delivery))
        graph.add_done_callback(lambda _: self._stir.set())
        try:
            outcome = await self._outcome(graph)
            if outcome is PAUSED:
                outcome = await self._pause()
            if outcome is not PAUSED:
                await self._ending.settle(outcome, await self._last_checkpoint(outcome))
        finally:
            # Also where the process goes and cancels this task before the exchange has ended.
            graph.cancel()
            self.settled.set()
        # The graph's task is ours to the end, though it may ignore its cancellation.
        await asyncio.wait({graph})
        if not graph.cancelled() and (late := graph.exception()) is not None and outcome.error is None:
            log.warning("a graph failed after its exchange had ended", exc_info=late, extra=self._asked.names)

    def _show_beginning(self) -> None:
        asked = self._asked
        self.log.append(
            Started,
            client_exchange_id=asked.client_exchange_id,
            agent_id=asked.agent_id,
            session=asked.session,
            resumes=asked.resumes,
        )
        self.log.append(Stream, message=asked.opening)

    async def _outcome(self, graph: asyncio.Task[None]) -> Outcome:
        """How the run has ended; its graph is then cancelled, where it still runs."""
        try:
            return await self._await_outcome(graph)
        except Drained:
            return Outcome(ExchangeStatus.INTERRUPTED, Interrupted())
        except Exception as error:
            # The edge of an exchange: whatever went wrong is its own ending.
            return self._ending.failed(error)
        finally:
            graph.cancel()

    def _cut_with(self, outcome: Outcome) -> None:
        if self._cut is None:
            self._cut = outcome
            self._stir.set()

    async def _await_outcome(self, graph: asyncio.Task[None]) -> Outcome:
        """Write what the graph gives until it ends, pauses, is cut or falls silent."""
        while not self._is_over(graph):
            self._stir.clear()
            await self._write(graph)
            await self._stirred_or_silent()
        if self._cut is not None and not graph.done():
            graph.cancel()
            goes = self._ending.process_goes.is_set()
            await asyncio.wait({graph}, timeout=_GOING_CUT_GRACE_S if goes else _CUT_GRACE_S)
            return self._cut
        if graph.cancelled():
            raise Internal("The agent cancelled itself.")
        graph.result()
        transcoder = self._graph_run.transcoder
        if transcoder is None or transcoder.waiting is None:
            return OK
        if self._asked.session is None:
            raise Internal("The agent asks for a decision, which a query can't give.")
        return PAUSED

    def _is_over(self, graph: asyncio.Task[None]) -> bool:
        return graph.done() or self._cut is not None

    async def _write(self, graph: asyncio.Task[None]) -> None:
        """Write what waits. The graph goes on while the store is away, and what it gives waits too.

        Raises StoreUnavailable where that takes too long; where the run is over first, its end is written later.
        """
        gives_up_at = self._clock() + LONGEST_OUTAGE_S

        async def wait(longest_s: float) -> bool:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    while not self._is_over(graph):
                        self._stir.clear()
                        await self._stir.wait()
            return not self._is_over(graph) and self._clock() < gives_up_at

        try:
            await until_stored(self._delivery.write, wait)
        except StoreUnavailable:
            if not self._is_over(graph):
                raise

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

    async def _pause(self) -> Outcome:
        """The graph waits for a person: leave all of it to the store. Another outcome where it ends instead."""
        try:
            pause = await self._stored_pause()
            if self._cut is not None and self._cut.status is not ExchangeStatus.INTERRUPTED:
                # It was stopped in between: nobody else may have taken it over.
                await until_stored(self._delivery.ledger.claim, self._ending.time_left)
                self.log.jump_to(next_epoch(pause.last_seq))
                return self._cut
        except ApprovalNotFound:
            # Another instance goes on with it since: its end is not ours to tell.
            if self._cut is STOPPED:
                self._stop_elsewhere()
        except StoreUnavailable as error:
            return self._cut or self._ending.failed(error)
        except Exception as error:
            return self._ending.failed(error)
        else:
            self._show_pause(pause)
        self._kpis.pause()
        return PAUSED

    def _show_pause(self, pause: Pause) -> None:
        if self.log.last_seq < pause.last_seq:
            # Else it is shown already: whoever found it in the store was faster, and may have decided.
            self.log.append(AwaitingHuman, payload=pause.pending)
        log.info("exchange waits for a person", extra=self._asked.names)

    async def _stored_pause(self) -> Pause:
        transcoder = self._graph_run.transcoder
        assert transcoder is not None and transcoder.waiting is not None, "a graph that has paused waits for something"
        self._delivery.accept(transcoder.pause(self._clock()))
        await until_stored(self._delivery.write, self._unless_cut)
        checkpoint = await self._checkpoint(CheckpointKind.APPROVAL_PENDING)
        if checkpoint is None:
            raise Internal("The agent can't wait for a person: its state can't be kept.")
        requests = asked_again(transcoder.waiting, self._graph_run.decided)
        timeout_s = self._limits.human_timeout_s
        deadline = None if timeout_s is None else self._now() + timedelta(seconds=timeout_s)
        pause = Pause(
            pending=requests.model_copy(update={"expires_at": deadline}),
            checkpoint=checkpoint,
            deadline=deadline,
            usage=transcoder.usage,
            last_seq=self.log.last_seq + 1,
            ran_ms=self._kpis.ran_ms,
            first_token_ms=self._kpis.first_token_ms,
        )
        await until_stored(lambda: self._delivery.ledger.set_waiting(pause), self._unless_cut)
        return pause

    async def _unless_cut(self, longest_s: float) -> bool:
        """Wait so long, or until the exchange is cut; False where it was cut already.

        What is cut because its process goes may wait on: it has its last tries.
        """
        if self._cut is not None:
            goes = self._cut.status is ExchangeStatus.INTERRUPTED
            return goes and await self._ending.time_left(longest_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                while self._cut is None:
                    self._stir.clear()
                    await self._stir.wait()
        return True

    async def _checkpoint_at(self, boundary: ToolCallPart | ToolResultPart) -> Checkpoint | None:
        if isinstance(boundary, ToolCallPart):
            return await self._checkpoint(CheckpointKind.TOOL_CALL, boundary.name)
        # The call may be stored together with its result.
        messages = [*self.log.messages, *self._delivery.unwritten]
        parts = (part for message in messages for part in message.parts if isinstance(part, ToolCallPart))
        name = next((part.name for part in parts if part.call_id == boundary.call_id), None)
        return await self._checkpoint(CheckpointKind.TOOL_COMPLETION, name)

    async def _last_checkpoint(self, outcome: Outcome) -> Checkpoint | None:
        """What is kept at the end. What was interrupted goes on from its last whole step."""
        if outcome.status is ExchangeStatus.INTERRUPTED:
            return await self._checkpoint(CheckpointKind.DRAINED)
        # Its text is stored as its final, and partial no longer.
        return Checkpoint(self._record(CheckpointKind.FINAL_RESULT, partial_output=None), None)

    async def _checkpoint(self, kind: CheckpointKind, tool: str | None = None) -> Checkpoint | None:
        if self._asked.session is None:
            return None
        state = await self._graph_run.checkpoint()
        if state is None:
            return None
        text = "".join(partial.text for partial in self.log.partial)
        return Checkpoint(self._record(kind, text[-_LONGEST_PARTIAL_OUTPUT:] or None, tool), state)

    def _record(self, kind: CheckpointKind, partial_output: str | None, tool: str | None = None) -> CheckpointRecord:
        return CheckpointRecord(
            kind=kind,
            at=self._now(),
            exchange_id=self._asked.opening.exchange_id,
            request_id=self._asked.request_id,
            tool=tool,
            partial_output=partial_output,
        )
