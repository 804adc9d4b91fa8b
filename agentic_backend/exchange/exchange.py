"""Exchange: runs one ask until it ends or waits for a person.

The relay owns its task. `run` awaits the graph's task and settles the exchange however the graph ends: by itself, by a
stop, a timeout or an error, or because the process shuts down. An exchange ends once, with exactly one `final`. While
it waits, it has no task and no owner: its state is in the store, and any instance can continue it.
"""

import asyncio
import logging
import time
from datetime import timedelta
from itertools import chain

from agentic_backend.errors import (
    AgenticError,
    AgentUnavailable,
    ApprovalNotFound,
    Internal,
    LimitReached,
    StoreUnavailable,
)
from agentic_backend.exchange.end.measurement import ExchangeMeasurement
from agentic_backend.exchange.end.outages import until_stored
from agentic_backend.exchange.end.settlement import Settlement
from agentic_backend.exchange.lifecycle import (
    BLOCKED,
    INTERRUPTED,
    OK,
    PAUSED,
    STOPPED,
    Lifecycle,
    Outcome,
    Phase,
    wait_for,
)
from agentic_backend.exchange.run.graph_run import Drained, GraphRun, StartedRun
from agentic_backend.exchange.run.time_limits import TimeLimits
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.exchange.write.boundary_events import show_beginning, show_waiting
from agentic_backend.exchange.write.kept_activities import kept_activities_of
from agentic_backend.exchange.write.outbox import Outbox
from agentic_backend.exchange.write.text_gate import gate_of
from agentic_backend.exchange.write.tool_calls import tool_calls_of
from agentic_backend.loop.loop_load import loop_load
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.protocol.events import HumanRequests
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.base import Checkpoint, Pause
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord
from agentic_backend.streaming.model.call_spans import note_said
from agentic_backend.streaming.people.interrupts import asked_again
from agentic_backend.tracing.spans import without_content

log = logging.getLogger(__name__)

# A tool may ignore its cancellation; the exchange ends without it after this time. The time is shorter during a
# shutdown, because the end still has to be stored and shown.
_CANCEL_S, _CANCEL_WHILE_PROCESS_GOES_S = 0.5, 0.2
# How long an agent keeps working while the store is unavailable.
LONGEST_OUTAGE_S = 60.0
_LONGEST_PARTIAL_OUTPUT = 2_000
# The most that a pause may ask, in characters of JSON: it is one event, and one row of the store.
_LONGEST_REQUESTS = 8 * 1024 * 1024


class Exchange:
    def __init__(
        self,
        start: ExchangeStart,
        graph_run: GraphRun,
        exchange_log: ExchangeLog,
        services: ExchangeServices,
        modules: ExchangeModules | None = None,
    ) -> None:
        """`modules` are those that look at the texts of its agent, and at the results of its tools."""
        self._start = start
        self._graph_run = graph_run
        """Runs in its own task, which `run` starts and awaits."""
        self._graph: asyncio.Task[StartedRun] | None = None
        """That task, once it has started."""
        self._services = services
        self._retried = services.kpi.dependencies.store_retried
        """Counts that a write is tried again."""
        self._limits = services.limits
        self._time_limits = TimeLimits.of(start.agent.settings, services.limits)
        """How long the agent may run, and be silent."""
        self._lifecycle = Lifecycle()
        """The phase of the exchange and its cancellation, shared by its parts."""
        self._outbox = Outbox(
            services.writer(start),
            exchange_log,
            self._lifecycle,
            self._checkpoint_at,
            start.stored,
            tool_calls_of(start, services.store.now, services.instance.id),
            services.ledger.priced,
            gate_of(start.record, start.agent.settings, start.opening, modules),
            kept_activities_of(start, services.store.now),
        )
        """Stores and shows the drafts of the graph."""
        if modules is not None:
            modules.record = self._outbox.record
        self._is_checked = modules is not None and (modules.has(Point.AFTER_AI) or modules.has(Point.TOOL_RESULT))
        """Whether modules look at what models or tools say: after their calls, so that spans of these can't have it."""
        self.began_at = time.monotonic()
        self._kpis = ExchangeMeasurement(services.kpi, start.record, graph_run)
        self._settlement = Settlement(start, graph_run, self._outbox, self._kpis, self._lifecycle, services)
        """Ends the exchange once the graph has ended."""
        self._clock = asyncio.get_running_loop().time
        self._load = loop_load()
        """Tells for how long the graph has been silent: what it has to say may wait for the loop."""

    @property
    def log(self) -> ExchangeLog:
        return self._outbox.log

    @property
    def client_exchange_id(self) -> str | None:
        return self._start.record.client_exchange_id

    @property
    def has_spoken(self) -> bool:
        return self._kpis.first_token_ms is not None

    @property
    def model_calls_begun_at(self) -> list[float]:
        return self._graph_run.model_calls_begun_at

    @property
    def settled(self) -> asyncio.Event:
        return self._lifecycle.settled

    def stop(self) -> None:
        self._lifecycle.cancel(STOPPED)

    def drain(self) -> None:
        self._graph_run.drain()

    def interrupt(self) -> None:
        self._lifecycle.interrupt()

    async def run(self) -> None:
        start, tracing = self._start, self._services.tracing
        with tracing.run_of(start.record, begins=start.resume_point is None) as span:
            try:
                with without_content(only_if=self._is_checked):
                    outcome = await self._run()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and self._lifecycle.process_goes.is_set():
                    raise
                # Whatever this is, it is no outcome of the graph's: the end could not be made, stored or shown.
                outcome = await self._settlement.end_from_store(error)
            finally:
                self._lifecycle.leave()
            if span is not None:
                span.note({"agentic.exchange.status": str(outcome.status)})
                if outcome.error is not None:
                    span.fail(outcome.error.code)
                if self._is_checked and tracing.sends_content:
                    note_said(span, start.opening, self._outbox.stored)
            if self._graph is not None:
                await self._outlive(self._graph, outcome)

    async def _run(self) -> Outcome:
        """The outcome, once it is settled."""
        self._kpis.start()
        if self.log.last_seq == 0:
            show_beginning(self.log, self._start)
        if self._is_blocked:
            # No agent is built, and no model called.
            await self._settle(BLOCKED)
            return BLOCKED
        graph = self._graph = asyncio.create_task(self._graph_run.run(self._outbox, self._fail))
        graph.add_done_callback(lambda _: self._lifecycle.wakeup.set())
        try:
            with self._load.waiting():
                outcome = await self._outcome(graph)
            if outcome is PAUSED:
                outcome = await self._pause(graph.result())
            if outcome is not PAUSED:
                await self._settle(outcome)
        finally:
            # Also if a shutdown cancels this task before the exchange has ended.
            graph.cancel()
        return outcome

    async def _settle(self, outcome: Outcome) -> None:
        await self._settlement.settle(outcome, await self._last_checkpoint(outcome))

    async def _outlive(self, graph: asyncio.Task[StartedRun], outcome: Outcome) -> None:
        """Wait for the graph's end, even if it ignores its cancellation: this task owns it."""
        await asyncio.wait({graph})
        if not graph.cancelled() and (late := graph.exception()) is not None and outcome.error is None:
            log.warning("graph failed after its exchange ended", exc_info=late, extra=self._start.log_fields)

    @property
    def _is_blocked(self) -> bool:
        """Whether a module has blocked the user's message, or a text of the agent."""
        return self._outbox.gate is not None and self._outbox.gate.blocked_response is not None

    async def _outcome(self, graph: asyncio.Task[StartedRun]) -> Outcome:
        """The outcome of the run. Cancels the graph if it still runs."""
        rest_s = self._time_limits.run_s - self._kpis.ran_ms / 1000
        run_end = asyncio.get_running_loop().call_later(rest_s, lambda: self._fail(self._time_limits.run_error()))
        try:
            return await self._await_outcome(graph)
        except Drained:
            return INTERRUPTED
        except Exception as error:
            # The boundary of an exchange: any error becomes its outcome.
            return self._settlement.failed(error)
        finally:
            run_end.cancel()
            graph.cancel()

    def _fail(self, error: AgenticError) -> None:
        self._lifecycle.cancel(Outcome(ExchangeStatus.ERROR, error))

    async def _await_outcome(self, graph: asyncio.Task[StartedRun]) -> Outcome:
        """Write the graph's drafts until it ends, pauses, is cancelled or times out."""
        while not self._is_over(graph):
            self._lifecycle.wakeup.clear()
            await self._write(graph)
            if self._is_blocked:
                self._lifecycle.cancel(BLOCKED)
            await self._woken_up_or_silent()
        if self._lifecycle.cancelled is not None and not graph.done():
            graph.cancel()
            goes = self._lifecycle.process_goes.is_set()
            await asyncio.wait({graph}, timeout=_CANCEL_WHILE_PROCESS_GOES_S if goes else _CANCEL_S)
            return self._lifecycle.cancelled
        if graph.cancelled():
            raise Internal("The agent cancelled itself.")
        if not graph.result().transcoder.is_paused:
            return OK
        if self._start.session is None:
            raise LimitReached(
                "The agent asks for a person's decision, and a query can't wait for one: ask in a session."
            )
        return PAUSED

    def _is_over(self, graph: asyncio.Task[StartedRun]) -> bool:
        return graph.done() or self._lifecycle.cancelled is not None

    async def _write(self, graph: asyncio.Task[StartedRun]) -> None:
        """Write the waiting drafts. The graph continues during an outage of the store, and its drafts wait.

        Raises StoreUnavailable if the outage is too long. If the run is over first, the settlement writes the rest.
        """
        gives_up_at = self._clock() + LONGEST_OUTAGE_S

        async def wait(longest_s: float) -> bool:
            tries_at = self._clock() + longest_s
            while not self._is_over(graph) and (rest_s := tries_at - self._clock()) > 0:
                self._lifecycle.wakeup.clear()
                await wait_for(self._lifecycle.wakeup, rest_s)
            return not self._is_over(graph) and self._clock() < gives_up_at

        try:
            await until_stored(self._outbox.write, wait, self._retried)
        except StoreUnavailable:
            if not self._is_over(graph):
                raise

    async def _woken_up_or_silent(self) -> None:
        """Wait until there is something to do; cancel the exchange if the graph gives no sign of life in time."""
        while not self._lifecycle.wakeup.is_set():
            ends_at, error = self._end_of_silence()
            rest_s = ends_at - self._load.served_s()
            if rest_s <= 0:
                self._fail(error)
                return
            # No longer than the shortest timeout: it may apply by then.
            await wait_for(self._lifecycle.wakeup, min(rest_s, self._time_limits.silence_s, self._time_limits.tool_s))

    def _end_of_silence(self) -> tuple[float, AgenticError]:
        """When the exchange ends if the graph stays silent, by the time in which the loop served, and its error."""
        started, last_sign = self._graph_run.started, self._graph_run.last_sign
        if started is None:
            return last_sign + self._graph_run.start_timeout_s, AgentUnavailable()
        in_flight = started.model_stream.in_flight
        if in_flight.in_line:
            # It has something to say.
            last_sign = self._load.served_s()
        return self._time_limits.next_end(in_flight, started.transcoder.calls.oldest, last_sign)

    async def _pause(self, started: StartedRun) -> Outcome:
        """Store the pause, so that any instance can continue. Another outcome than PAUSED if it has to end instead."""
        self._lifecycle.enter(Phase.PAUSING)
        try:
            pause = await self._stored_pause(started)
            if pause is None:
                return BLOCKED
            cancelled = self._lifecycle.cancelled
            if cancelled is not None and cancelled is not INTERRUPTED:
                # It was stopped meanwhile: take it back, unless another instance has continued it.
                await until_stored(self._outbox.writer.claim, self._lifecycle.while_process_stays, self._retried)
                self.log.jump_to(next_epoch(pause.last_seq))
                return cancelled
        except ApprovalNotFound:
            # Another instance has continued it, and shows its end.
            if self._lifecycle.cancelled is STOPPED:
                self._services.relay.stop_elsewhere(self._start.record.id)
            self._lifecycle.leave()
        except StoreUnavailable as error:
            return self._lifecycle.cancelled or self._settlement.failed(error)
        except Exception as error:
            return self._settlement.failed(error)
        else:
            # The log may show it already: a reader may have found the pause in the store, and a person decided.
            show_waiting(self.log, pause.pending, pause.last_seq)
            self._settlement.answered(ExchangeStatus.AWAITING_HUMAN)
            log.info("exchange waits for a person", extra=self._start.log_fields)
            self._lifecycle.enter(Phase.WAITING)
        self._kpis.pause()
        return PAUSED

    async def _stored_pause(self, started: StartedRun) -> Pause | None:
        """The pause, once it is stored; None if a module has blocked what the agent says before it."""
        self._outbox.accept(started.transcoder.pause(self._clock()))
        self._graph_run.record_unended(self._outbox)
        await until_stored(self._outbox.write_all, self._lifecycle.while_not_cancelled, self._retried)
        if self._is_blocked:
            return None
        checkpoint = await self._checkpoint(CheckpointKind.APPROVAL_PENDING)
        if checkpoint is None:
            raise self._graph_run.unstorable or Internal("The agent can't wait for a person: its state can't be kept.")
        timeout_s = self._limits.human_timeout_s
        deadline = None if timeout_s is None else self._services.store.now() + timedelta(seconds=timeout_s)
        pause = Pause(
            pending=(await self._requests(started)).model_copy(update={"expires_at": deadline}),
            checkpoint=checkpoint,
            deadline=deadline,
            usage=started.transcoder.usage,
            last_seq=self.log.last_seq + 1,
            ran_ms=self._kpis.ran_ms,
            first_token_ms=self._kpis.first_token_ms,
        )
        await until_stored(
            lambda: self._outbox.writer.set_waiting(pause), self._lifecycle.while_not_cancelled, self._retried
        )
        return pause

    async def _requests(self, started: StartedRun) -> HumanRequests:
        resume_point = self._start.resume_point
        # In a thread, because an author may ask with values of any size.
        waiting = await asyncio.to_thread(lambda: started.transcoder.waiting)
        assert waiting is not None, "a graph that has paused waits for something"
        if len(await asyncio.to_thread(waiting.model_dump_json)) > _LONGEST_REQUESTS:
            raise LimitReached(f"The agent asks a person for more than {_LONGEST_REQUESTS >> 20} MiB at once.")
        if (why := self._graph_run.refused_answer) is not None:
            waiting = waiting.model_copy(update={"title": f"The answer was not accepted: {why}"})
        return asked_again(waiting, len(resume_point.decisions or ()) if resume_point is not None else 0)

    async def _checkpoint_at(self, boundary: ToolCallPart | ToolResultPart) -> Checkpoint | None:
        if isinstance(boundary, ToolCallPart):
            return await self._checkpoint(CheckpointKind.TOOL_CALL, boundary.name)
        # The call may be in the same batch as its result.
        messages = chain(reversed(self._outbox.unwritten), reversed(self._outbox.stored))
        parts = (part for message in messages for part in message.parts if isinstance(part, ToolCallPart))
        name = next((part.name for part in parts if part.call_id == boundary.call_id), None)
        return await self._checkpoint(CheckpointKind.TOOL_COMPLETION, name)

    async def _last_checkpoint(self, outcome: Outcome) -> Checkpoint | None:
        """The checkpoint to keep at the end: an interrupted exchange can continue from its last complete step."""
        if outcome.status is ExchangeStatus.INTERRUPTED:
            return await self._checkpoint(CheckpointKind.DRAINED)
        # Its text is stored as its final, so there is no partial output.
        return Checkpoint(self._record(CheckpointKind.FINAL_RESULT, partial_output=None), None)

    async def _checkpoint(self, kind: CheckpointKind, tool: str | None = None) -> Checkpoint | None:
        if self._start.session is None:
            return None
        state = await self._graph_run.checkpoint()
        if state is None:
            return None
        text = "".join(partial.text for partial in self.log.partial)
        return Checkpoint(self._record(kind, text[-_LONGEST_PARTIAL_OUTPUT:] or None, tool), state)

    def _record(self, kind: CheckpointKind, partial_output: str | None, tool: str | None = None) -> CheckpointRecord:
        return CheckpointRecord(
            kind=kind,
            at=self._services.store.now(),
            exchange_id=self._start.record.id,
            request_id=self._start.record.request_id,
            tool=tool,
            partial_output=partial_output,
        )
