"""GraphRun: one run of an agent's graph for an exchange, from the leased agent to delivered drafts.

It begins with the user's message, or goes on from a checkpoint of a run before it. Its exchange owns the task that
awaits `run`, watches its silence, takes its checkpoints and may cancel it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.runtime import RunControl
from langgraph.types import Command

from agentic_backend.agents.agent_factory import AgentFactory, WarmAgent
from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.errors import AgenticError, Internal
from agentic_backend.protocol.messages import ChatMessage, TokenUsage
from agentic_backend.protocol.parts import text_of
from agentic_backend.sessions.delivery import Delivery
from agentic_backend.sessions.recall import Memory, Recall
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.interrupts import resume_values
from agentic_backend.streaming.model_stream import ModelCall, ModelStream
from agentic_backend.streaming.resumed_run import ResumedRun
from agentic_backend.streaming.said import Said
from agentic_backend.streaming.stream_transcoder import StreamTranscoder

log = logging.getLogger(__name__)

_Given = Mapping[str, Any] | Command[Any] | None


@dataclass(frozen=True, slots=True)
class GoOn:
    """From where a run goes on: the packed checkpoints, and what people decided on what they wait for.

    `stored` are the messages of this exchange so far; `first_block` and `usage` continue what it has.
    """

    state: bytes = field(repr=False)
    decisions: Sequence[HumanDecision] | None
    stored: Sequence[ChatMessage] = field(repr=False)
    first_block: int
    usage: TokenUsage


class Drained(Exception):
    """The graph has stopped between two steps, as it was asked to; its checkpoint is where it goes on from."""


class GraphRun:
    """`transcoder`, `warm` and `memory` are None until the agent is there."""

    def __init__(
        self,
        entry: CatalogAgent,
        context: RuntimeContext,
        *,
        factory: AgentFactory,
        recall: Recall,
        window: int,
        on_first_token: Callable[[], None],
        said: Said | None = None,
        go_on: GoOn | None = None,
    ) -> None:
        self._entry = entry
        self._context = context
        self._factory = factory
        self._recall = recall
        self._window = window
        self._on_first_token = on_first_token
        self._said = said or Said()
        self._go_on = go_on
        self._control = RunControl()
        self._awaits_first_token = True
        self._model_stream: ModelStream | None = None
        self._checkpoints: ExchangeCheckpoints | None = None
        self._clock = asyncio.get_running_loop().time
        self.last_sign = self._clock()
        """When the graph gave its last sign of life."""
        self.ready_at: float | None = None
        """When the agent was there and its graph began to run."""
        self.transcoder: StreamTranscoder | None = None
        self.warm: WarmAgent | None = None
        self.memory: Memory | None = None

    async def run(self, opening: ChatMessage, delivery: Delivery) -> None:
        """Run the graph on the user's message, or on from its checkpoint, until it ends or pauses.

        Raises CheckpointMissing where there is nothing to go on from, Drained, and what the agent raises.
        """
        try:
            checkpoints = await self._checkpoints_to_go_on_from()
            async with self._factory.lease(self._entry, self._context) as warm:
                await self._answer(warm, opening, delivery, checkpoints)
        except SystemExit as error:
            raise Internal("The agent wanted to end the server.") from error

    def drain(self) -> None:
        """Ask the graph to stop before its next step; `run` then raises Drained. What it is at comes to its end."""
        self._control.request_drain()

    async def checkpoint(self) -> bytes | None:
        """Where the graph is now, from where any process goes on; None where it holds what can't be kept."""
        if self._checkpoints is None:
            return None
        snapshot = self._checkpoints.snapshot()
        try:
            # In a thread, for it may hold a long conversation and many files.
            return await asyncio.to_thread(snapshot.pack)
        except (TypeError, ValueError, RuntimeError) as error:
            # A graph that changes a value in place, meanwhile, is a RuntimeError.
            names = {"exchange_id": self._context.exchange_id, "agent_id": self._entry.settings.id}
            log.warning("a graph's checkpoint can't be kept", exc_info=error, extra=names)
            return None

    async def _checkpoints_to_go_on_from(self) -> ExchangeCheckpoints | None:
        if self._go_on is None:
            return None
        checkpoints = await asyncio.to_thread(ExchangeCheckpoints.unpack, self._go_on.state)
        self._context.run_id = checkpoints.thread_id
        return checkpoints

    async def _answer(
        self, warm: WarmAgent, opening: ChatMessage, delivery: Delivery, checkpoints: ExchangeCheckpoints | None
    ) -> None:
        agent_id = self._entry.settings.id
        memory = await self._recall.restore(warm, delivery.ledger.session, opening.rank, self._window)
        self.warm, self.memory = warm, memory
        given: _Given
        if self._go_on is None or checkpoints is None:
            asked = HumanMessage(text_of(opening.parts), id=f"{opening.exchange_id}:{opening.rank}")
            messages = [*memory.history.messages, asked]
            given = {"messages": messages}
            checkpoints = ExchangeCheckpoints(memory.states.get(agent_id), thread_id=self._context.run_id)
            transcoder = StreamTranscoder(agent_id, messages, self._clock())
        else:
            go_on, interrupts = self._go_on, checkpoints.interrupts
            answers = resume_values(interrupts, go_on.decisions) if go_on.decisions is not None else {}
            given = Command(resume=answers) if answers else None
            resumed = ResumedRun(checkpoints, go_on.stored, go_on.first_block, go_on.usage)
            transcoder = StreamTranscoder(agent_id, resumed.messages, self._clock(), resumed)
            delivery.accept(transcoder.announce_anew(self._clock()))
        self.transcoder, self._checkpoints = transcoder, checkpoints
        await self._pump(warm, given, checkpoints, transcoder, delivery)

    @property
    def decided(self) -> int:
        """How many decisions the run had when it began to go on."""
        return len(self._go_on.decisions or ()) if self._go_on is not None else 0

    @property
    def start_timeout_s(self) -> float:
        """How long its agent may take to start, in seconds; the factory gives up by itself before."""
        return 2 * self._factory.build_timeout_s

    @property
    def model_calls(self) -> list[ModelCall]:
        """The model calls that have ended."""
        return self._model_stream.ended if self._model_stream is not None else []

    def typed(self, error: Exception) -> AgenticError:
        """What an exception that came out of `run` is called on the wire."""
        if isinstance(error, AgenticError):
            return error
        if isinstance(error, GraphRecursionError):
            return Internal("The agent came to no end within its limit of steps.")
        model_error = self._model_stream.typed(error) if self._model_stream is not None else None
        return model_error or Internal()

    async def _pump(
        self,
        warm: WarmAgent,
        given: _Given,
        checkpoints: ExchangeCheckpoints,
        transcoder: StreamTranscoder,
        delivery: Delivery,
    ) -> None:
        def take(part: StreamPart) -> None:
            self.last_sign = self._clock()
            delivery.accept(transcoder.feed(part, self.last_sign))
            if self._awaits_first_token and transcoder.first_token_at is not None:
                self._awaits_first_token = False
                self._on_first_token()

        self.ready_at = self._clock()
        self._model_stream = ModelStream(take, self._said)
        config = RunnableConfig(configurable={"thread_id": checkpoints.thread_id}, callbacks=[self._model_stream])
        self.last_sign = self._clock()
        try:
            async for part in warm.flow.astream_updates(given, config, checkpoints, self._control):
                take(part)
        except GraphDrained as error:
            raise Drained from error
        finally:
            self._model_stream.cut()
