"""GraphRun: one run of an agent's graph for an exchange, from the leased agent to delivered drafts.

Its exchange owns the task that awaits `run`, watches its silence and may cancel it.
"""

import asyncio
import logging
from collections.abc import Callable

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError

from agentic_backend.agents.agent_factory import AgentFactory, WarmAgent
from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.errors import AgenticError, Internal
from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.protocol.parts import text_of
from agentic_backend.sessions.delivery import Delivery
from agentic_backend.sessions.recall import Memory, Recall
from agentic_backend.streaming.model_stream import ModelCall, ModelStream
from agentic_backend.streaming.stream_transcoder import StreamTranscoder

log = logging.getLogger(__name__)


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
    ) -> None:
        self._entry = entry
        self._context = context
        self._factory = factory
        self._recall = recall
        self._window = window
        self._on_first_token = on_first_token
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
        """Run the graph on the user's message until it ends or pauses. Raises what the agent raises."""
        try:
            async with self._factory.lease(self._entry, self._context) as warm:
                await self._answer(warm, opening, delivery)
        except SystemExit as error:
            raise Internal("The agent wanted to end the server.") from error

    async def _answer(self, warm: WarmAgent, opening: ChatMessage, delivery: Delivery) -> None:
        memory = await self._recall.restore(warm, delivery.ledger.session, opening.rank, self._window)
        asked = HumanMessage(text_of(opening.parts), id=f"{opening.exchange_id}:{opening.rank}")
        messages = [*memory.history.messages, asked]
        self.warm, self.memory = warm, memory
        self.transcoder = StreamTranscoder(self._entry.settings.id, messages, self._clock())
        self._checkpoints = ExchangeCheckpoints(memory.states.get(self._entry.settings.id))
        await self._pump(warm, messages, self._checkpoints, self.transcoder, delivery)

    async def checkpoint(self) -> bytes | None:
        """What the graph, which has paused, goes on from; None where it holds what can't be kept."""
        assert self._checkpoints is not None, "a graph that has paused has run"
        try:
            # In a thread, for it may hold a long conversation and many files.
            return await asyncio.to_thread(self._checkpoints.pack)
        except (TypeError, ValueError) as error:
            names = {"exchange_id": self._context.exchange_id, "agent_id": self._entry.settings.id}
            log.warning("a paused graph can't be kept", exc_info=error, extra=names)
            return None

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
        messages: list[BaseMessage],
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
        self._model_stream = ModelStream(take)
        config = RunnableConfig(configurable={"thread_id": self._context.exchange_id}, callbacks=[self._model_stream])
        self.last_sign = self._clock()
        try:
            async for part in warm.flow.astream_updates({"messages": messages}, config, checkpoints):
                take(part)
        finally:
            self._model_stream.cut()
