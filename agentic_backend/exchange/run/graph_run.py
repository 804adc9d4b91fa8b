"""GraphRun: one run of an agent's graph for an exchange, from the leased agent to the drafts in the outbox.

It starts with the user's message, or resumes from the checkpoint of an earlier run. Its exchange owns the task that
awaits `run`, enforces the timeouts, takes the checkpoints and may cancel it.
"""

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained, GraphRecursionError, is_invalid_resume
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt
from pydantic import ValidationError

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.run.at_work import AtWork, at_work
from agentic_backend.agents.run.call_limits import CallLimits, Spent, steps_exceeded
from agentic_backend.agents.run.separate_questions import askers, require_none_refused
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.state.kept_state import unstorable
from agentic_backend.agents.state.state_serializer import Unstorable
from agentic_backend.agents.tools.tool_guard import tools_meant
from agentic_backend.disclosure.known_secrets import SHORTEST_SECRET
from agentic_backend.disclosure.readable_errors import readable_errors
from agentic_backend.errors import AgenticError, BudgetExceeded, Internal, StateRefused
from agentic_backend.exchange.end.ending import left_open
from agentic_backend.exchange.past.recall import Memory
from agentic_backend.exchange.run.graph_input import Given, paused_graph
from agentic_backend.exchange.run.run_preparation import RunPreparation
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.exchange.write.outbox import Outbox
from agentic_backend.loop.loop_load import loop_load
from agentic_backend.policy.usage.usage_ledger import Payer
from agentic_backend.protocol.frames import first_problem
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.pacing import text_interval_s
from agentic_backend.streaming.model.model_calls import Asked, ModelCall
from agentic_backend.streaming.model.response_calls import ResponseCalls
from agentic_backend.streaming.model.run_callback import RunCallback
from agentic_backend.streaming.model.said import Said
from agentic_backend.streaming.model.text_gathering import TextGathering
from agentic_backend.streaming.people.interrupts import asks_with_unusable_type, require_answerable
from agentic_backend.streaming.transcode.activities import activity_of
from agentic_backend.streaming.transcode.drafts import CompleteDraft
from agentic_backend.streaming.transcode.stream_transcoder import StreamTranscoder
from agentic_backend.tracing.spans import agent_span, error_type

log = logging.getLogger(__name__)

# The shortest interval at which a door sends text, in seconds.
_LEAST_TEXT_INTERVAL_S = 0.05
# What all models of a run may say, in the longest outputs of one call.
_LONGEST_OUTPUTS = 4
# How LangGraph tells of a pause without an interrupt.
_AT_BREAKPOINT: StreamPart = ((), "updates", {"__interrupt__": ()})


class Drained(Exception):
    """The graph has stopped between two steps, as requested; it can resume from its checkpoint."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that has its agent: the graph runs or has ended. Times are in seconds of the event loop's clock."""

    warm: WarmAgent
    memory: Memory
    """The history and the graph states of the session's earlier exchanges."""
    checkpoints: ExchangeCheckpoints
    """The graph's checkpoints."""
    transcoder: StreamTranscoder
    """Turns the graph's stream into drafts."""
    stream: TextGathering
    """What the graph's stream goes through before."""
    call_limits: CallLimits
    """Counts its calls and tokens."""
    model_stream: RunCallback
    """The tokens of its models, the model calls that have ended, and what is at work."""
    at: float
    """When the graph started."""

    def closing(self, status: ExchangeStatus, now: float) -> Sequence[CompleteDraft]:
        """The messages that complete open texts and calls if the run ends with `status`."""
        # A tool may ignore its cancellation, and text may have gathered.
        self.stream.flush()
        last = (
            self.transcoder.finish(now)
            if status is ExchangeStatus.OK
            else self.transcoder.close(now, *left_open(status))
        )
        return [draft for draft in last if isinstance(draft, CompleteDraft)]


class GraphRun:
    def __init__(self, start: ExchangeStart, context: RuntimeContext, services: ExchangeServices) -> None:
        self._start = start
        self._context = context
        """The exchange's data for the agent and its tools."""
        context.known_secrets = lambda: self.secrets
        context.most_steps = services.limits.steps
        self._first_tokens = (context.access_token, context.refresh_token)
        """The user's tokens at the start; during a run, newer ones come."""
        self._services = services
        self._control = RunControl()
        """Asks the graph to stop between two steps."""
        self._clock = asyncio.get_running_loop().time
        self._served_s = loop_load().served_s
        """The time in which the loop served, in seconds: a graph that waits for the loop is not silent."""
        self._preparation = RunPreparation(start, context, services, self._clock)
        self.last_sign = self._served_s()
        """When the graph gave its last sign of life, by that time."""
        self.started: StartedRun | None = None
        """None until the agent is leased."""
        self.refused_answer: str | None = None
        """Why the graph has refused an answer that it was resumed with, and asks again."""
        self._has_recorded_unended = False
        """Whether the model calls that it ends without are recorded."""
        self.unstorable: StateRefused | None = None
        """Why the last checkpoint could not be packed, if it is for a type that may not be stored."""

    async def run(self, outbox: Outbox, on_exceeded: Callable[[AgenticError], None] = lambda error: None) -> StartedRun:
        """Run the graph from the user's message or from its checkpoint, until it ends or pauses.

        `on_exceeded` is called as soon as a limit of calls or tokens or a budget is exceeded: the graph may catch what
        it raises. Raises CheckpointMissing and StateRefused if it can't go on from what is stored, Drained,
        LimitReached, BudgetExceeded, and the agent's errors.
        """
        try:
            checkpoints = await self._checkpoints_to_go_on_from()
            agent = self._start.agent.settings
            with at_work(self._at_work(outbox)), agent_span(agent.id, agent.name or agent.id, self._named):
                async with self._services.factory.lease(self._start.agent, self._context) as warm:
                    with readable_errors():
                        return await self._answer(warm, outbox, checkpoints, on_exceeded)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            if _ends_process(error):
                raise Internal("The agent wanted to end the server.") from error
            # Of a library whose errors derive from BaseException.
            raise self.typed(error) from error

    def _named(self, error: BaseException) -> str | None:
        """The error in the trace: its code; None if the run only makes way."""
        if isinstance(error, Drained):
            return None
        return self.typed(error).code if isinstance(error, Exception) else error_type(error)

    def drain(self) -> None:
        """Ask the graph to stop after its current step; `run` then raises Drained."""
        self._control.request_drain()

    async def checkpoint(self) -> bytes | None:
        """The packed checkpoint, from which any process can continue; None if it holds values that can't be packed."""
        if self.started is None:
            return None
        started = self.started
        started.checkpoints.spent = started.call_limits.packed()
        started.checkpoints.meant = tools_meant(started.warm.agents, started.transcoder.called)
        snapshot = started.checkpoints.snapshot()
        try:
            # In a thread, because it may hold a long conversation and many files.
            return await asyncio.to_thread(snapshot.pack)
        except (TypeError, ValueError, RuntimeError) as error:
            # RuntimeError: the graph changes a value in place while it is packed.
            self.unstorable = StateRefused(str(error)) if isinstance(error, Unstorable) else None
            told = {**self._start.log_fields, **unstorable(error)}
            log.warning("graph checkpoint not kept", exc_info=error, extra=told)
            return None

    @property
    def start_timeout_s(self) -> float:
        """How long an agent and its history may take, in seconds; each has a shorter timeout of its own."""
        return 2 * self._services.factory.build_timeout_s + self._services.compactor.timeout_s

    @property
    def model_calls_begun_at(self) -> list[float]:
        """When the model calls began that have not ended, in seconds of the monotonic clock. From any thread."""
        return self.started.model_stream.begun_at if self.started is not None else []

    @property
    def secrets(self) -> Sequence[str]:
        """The secrets that the agent and its tools could have put into the text of an exception."""
        newest = (self._context.access_token, self._context.refresh_token)
        tokens = [*self._first_tokens, *newest, *self._context.tokens.latest]
        return [
            *self._services.factory.secrets,
            *dict.fromkeys(token for token in tokens if token and len(token) >= SHORTEST_SECRET),
        ]

    def record_unended(self, outbox: Outbox) -> None:
        """Record the model calls that the run ends without. A repetition changes nothing."""
        if self.started is not None and not self._has_recorded_unended:
            self._has_recorded_unended = True
            payer = Payer.of(self._start.record)
            calls = self.started.model_stream.unended
            outbox.record([self._services.ledger.record_of(call, payer) for call in calls])

    @property
    def model_calls(self) -> list[ModelCall]:
        """The model calls that have ended, and those that the run ends without."""
        return [*self.started.model_stream.ended, *self.started.model_stream.unended] if self.started else []

    @property
    def is_compacted(self) -> bool:
        """Whether the history has become shorter since the session's last turn."""
        return self._preparation.is_compacted

    @property
    def prompt_tokens(self) -> Mapping[str, int]:
        """The size of the answering agent's system prompt by section, once it is assembled."""
        return self._preparation.prompt_tokens

    @property
    def agent_name(self) -> str:
        """The name of its agent in the catalog."""
        return self._start.agent.settings.name

    def typed(self, error: BaseException) -> AgenticError:
        """The typed error for an exception that `run` raised."""
        exceeded = self.started.call_limits.exceeded if self.started is not None else None
        if exceeded is not None:
            return exceeded
        while isinstance(error, BaseExceptionGroup):
            # Of an author's TaskGroup.
            error = error.exceptions[0]
        if isinstance(error, AgenticError):
            return error
        if isinstance(error, GraphRecursionError):
            return steps_exceeded(self._start.agent.settings.name, error)
        model_error = self.started.model_stream.typed(error) if self.started is not None else None
        return model_error or asks_with_unusable_type(error) or Internal()

    def _at_work(self, outbox: Outbox) -> AtWork:
        # Weak, because tasks that the agent starts, and that outlive this run, keep its context.
        shown = weakref.ref(outbox) if self._start.for_author else None

        def show(data: Mapping[str, Any]) -> None:
            if shown is not None and (still_there := shown()) is not None:
                still_there.accept([activity_of(data)])

        retried = partial(self._services.kpi.dependencies.retried, "model")
        return AtWork(self._start.agent.settings.id, self._start.log_fields, show, retried=retried)

    async def _checkpoints_to_go_on_from(self) -> ExchangeCheckpoints | None:
        if self._start.resume_point is None:
            return None
        checkpoints = await asyncio.to_thread(ExchangeCheckpoints.unpack, self._start.resume_point.state)
        self._context.run_id = checkpoints.run_id
        return checkpoints

    async def _answer(
        self,
        warm: WarmAgent,
        outbox: Outbox,
        checkpoints: ExchangeCheckpoints | None,
        on_exceeded: Callable[[AgenticError], None],
    ) -> StartedRun:
        memory, graph_input = await self._preparation.prepare(warm, checkpoints, outbox)
        checkpoints, transcoder = graph_input.checkpoints, graph_input.transcoder
        call_limits = self._call_limits(checkpoints, on_exceeded)
        stream = TextGathering(lambda part: self._take(part, transcoder, outbox), self._text_interval_s)
        calls = ResponseCalls(graph_input.past, graph_input.ran)
        model_stream = self._model_stream(stream, outbox, call_limits, calls)
        self.started = StartedRun(
            warm, memory, checkpoints, transcoder, stream, call_limits, model_stream, self._clock()
        )
        if graph_input.not_passed:
            _ask(graph_input.not_passed, stream)
        else:
            await self._pump(self.started, graph_input.given)
        if call_limits.exceeded is not None:
            raise call_limits.exceeded
        if not transcoder.is_paused:
            model_stream.calls.require_answered()
        return self.started

    def _text_interval_s(self) -> float:
        """How long text gathers on its way to the log: half of what it gathers there at least."""
        return text_interval_s(_LEAST_TEXT_INTERVAL_S, self._services.relay.running_count) / 2

    def _call_limits(self, checkpoints: ExchangeCheckpoints, on_exceeded: Callable[[AgenticError], None]) -> CallLimits:
        loop = asyncio.get_running_loop()
        return CallLimits(
            self._start.agent.settings,
            Spent(*checkpoints.spent),
            lambda error: _call_soon(loop, on_exceeded, error),
        )

    def _model_stream(
        self, stream: TextGathering, outbox: Outbox, call_limits: CallLimits, calls: ResponseCalls
    ) -> RunCallback:
        limits, ledger, payer = self._services.limits, self._services.ledger, Payer.of(self._start.record)
        said = Said(limits.model_call_bytes, _LONGEST_OUTPUTS * limits.model_call_bytes)

        def begin(call_id: str, model: str, asked: Asked) -> None:
            try:
                ledger.begin(call_id, model, asked, payer)
            except BudgetExceeded as error:
                raise call_limits.refuse(error) from None

        return RunCallback(
            stream.take,
            said,
            call_limits,
            self._served_s,
            lambda call: outbox.record([ledger.record_of(call, payer)]),
            outbox.note_allowed,
            self._services.turns,
            calls,
            begin,
        )

    async def _pump(self, started: StartedRun, given: Given) -> None:
        callbacks: list[BaseCallbackHandler] = [started.model_stream]
        if (run_steps := self._services.run_steps.begin(self._start, self._services.relay.running_count)) is not None:
            run_steps.secrets = self.secrets
            # First: LangChain tells those behind a callback that raises nothing, as the stream does at a limit.
            callbacks.insert(0, run_steps)
            started.checkpoints.on_step = run_steps.keep_state
            # In the first step of such a graph, only its `__start__` runs.
            started.checkpoints.first_step = int(isinstance(started.warm.flow.get_compiled_graph(), CompiledStateGraph))
        config = RunnableConfig(configurable=started.warm.flow.configurable(), callbacks=callbacks)
        if (steps := self._start.agent.settings.limits.steps) is not None:
            config["recursion_limit"] = steps
        self.last_sign = self._served_s()
        at_breakpoint = False
        try:
            updates = started.warm.flow.astream_updates(given, config, started.checkpoints, self._control)
            async for part in updates:
                at_breakpoint |= part == _AT_BREAKPOINT
                if part[1] == "custom":
                    started.model_stream.in_flight.progress(self._served_s())
                started.stream.take(part)
        except GraphDrained as error:
            raise Drained from error
        except ValidationError as error:
            # A validator of the graph's own type, which no JSON Schema tells of: the person may answer again.
            if not is_invalid_resume(error):
                raise
            self.refused_answer = first_problem(error, "answer")
            _ask(started.checkpoints.interrupts, started.stream)
        finally:
            started.model_stream.cut()
            started.stream.flush()
            if run_steps is not None:
                run_steps.cut()
                self._services.run_steps.keep_within_bounds()
        if at_breakpoint or started.transcoder.is_paused:
            require_none_refused()
            # Of the tasks that a node has begun and awaits, LangGraph tells only of the first that asks.
            # One that was answered stays in the checkpoints until its task asks again or ends.
            answered = given.resume if isinstance(given, Command) and isinstance(given.resume, dict) else {}
            asked = [one for one in started.checkpoints.interrupts if one.id not in answered]
            await asyncio.to_thread(require_answerable, asked, askers())
            _ask(asked, started.stream)
            paused = paused_graph(self._start, started.warm, started.checkpoints)
            _ask(await paused.breakpoints(has_paused=at_breakpoint), started.stream)

    def _take(self, part: StreamPart, transcoder: StreamTranscoder, outbox: Outbox) -> None:
        self.last_sign = self._served_s()
        outbox.accept(transcoder.feed(part, self._clock()))


def _ask(interrupts: Sequence[Interrupt], stream: TextGathering) -> None:
    stream.take(((), "updates", {"__interrupt__": tuple(interrupts)}))


def _call_soon(
    loop: asyncio.AbstractEventLoop, on_exceeded: Callable[[AgenticError], None], error: AgenticError
) -> None:
    """Call it in the event loop. After the loop's end it is of no use: a thread may outlive it."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(on_exceeded, error)


def _ends_process(error: BaseException) -> bool:
    """Whether it is what ends a process, also in the group of an author's TaskGroup."""
    ending = (SystemExit, KeyboardInterrupt)
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(ending) is not None
    return isinstance(error, ending)
