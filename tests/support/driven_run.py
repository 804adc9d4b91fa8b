"""A GraphRun driven as its exchange does it: a checkpoint comes with every result, and another run goes on from it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.protocol.messages import Channel, ChatMessage, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart
from agentic_backend.sessions.delivery import Delivery
from agentic_backend.sessions.graph_run import GoOn, GraphRun
from agentic_backend.sessions.ledger import QueryLedger
from agentic_backend.sessions.recall import Recall
from agentic_backend.stores.base import Checkpoint
from agentic_backend.stores.records import HumanDecision
from agentic_backend.stores.sqlite import SqliteStore
from support.decisions import decide
from support.recorded_agents import agent_factory, context_of, entry_of
from support.turn_model import TurnModel

PATIENCE_S = 15.0


class ReadingModel(TurnModel):
    """Says the turn that comes next in the conversation that it is given, whoever has said those before."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._said = sum(isinstance(message, AIMessage) for message in messages)
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


class DrivenRun:
    """`messages` are those of the exchange so far, `packs` the checkpoints that were taken with its results."""

    def __init__(
        self, store: SqliteStore, graph: CompiledGraph, exchange_id: str = "e1", go_on: GoOn | None = None
    ) -> None:
        self.packs: list[bytes] = []
        self.context = context_of(None)
        self.context.exchange_id = self.context.run_id = exchange_id
        self.graph_run = GraphRun(
            entry_of(graph),
            self.context,
            factory=agent_factory(),
            recall=Recall(store),
            window=10,
            on_first_token=lambda: None,
            go_on=go_on,
        )
        self.opening = opening_of(exchange_id)
        self.messages: list[ChatMessage] = list(go_on.stored) if go_on else [self.opening]
        self._stir = asyncio.Event()
        self._delivery = Delivery(
            QueryLedger(store, exchange_id), ExchangeLog(None, exchange_id), self._stir, self._checkpoint_at
        )

    async def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Run until it ends or pauses; where `until` holds before, it is cut, as if its process had died."""
        graph = asyncio.create_task(self.graph_run.run(self.opening, self._delivery))
        graph.add_done_callback(lambda _: self._stir.set())
        async with asyncio.timeout(PATIENCE_S):
            while not graph.done() and not until():
                self._stir.clear()
                await self._write()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await self._stir.wait()
            if not graph.done():
                graph.cancel()
                await asyncio.wait({graph})
                return
            graph.result()
            transcoder = self.graph_run.transcoder
            assert transcoder is not None
            self._delivery.accept(transcoder.pause(1e9) if transcoder.waiting else transcoder.finish(1e9))
            await self._write()

    async def after_the_pause(self, *actions: Any, answer: str | None = None) -> GoOn:
        """How the same exchange goes on once people have decided, or have given their `answer`."""
        transcoder, state = self.graph_run.transcoder, await self.graph_run.checkpoint()
        assert transcoder is not None and state is not None and transcoder.waiting is not None
        interrupts = ExchangeCheckpoints.unpack(state).interrupts
        if answer is None:
            decisions = decide(interrupts, *actions)
        else:
            decisions = [
                HumanDecision(interrupt_id=one.id, action="answer", by="ann", at=utc_now(), answer=answer)
                for one in interrupts
            ]
        return GoOn(state, decisions, self.messages, 100, transcoder.usage)

    def told(self) -> list[str]:
        """The messages behind the opening, in short."""
        return [in_short(message) for message in self.messages[1:]]

    async def _write(self) -> None:
        before = len(self._delivery.log.messages)
        await self._delivery.write()
        self.messages += self._delivery.log.messages[before:]

    async def _checkpoint_at(self, boundary: ToolCallPart | ToolResultPart) -> Checkpoint | None:
        state = await self.graph_run.checkpoint()
        assert state is not None
        if isinstance(boundary, ToolResultPart):
            self.packs.append(state)
        return None


def in_a_new_exchange(state: bytes) -> GoOn:
    return GoOn(state, None, [opening_of("e2")], 0, TokenUsage())


def opening_of(exchange_id: str) -> ChatMessage:
    return ChatMessage(
        role=Role.USER,
        channel=Channel.FINAL,
        parts=[TextPart(text="Do it.")],
        session_id=None,
        exchange_id=exchange_id,
        rank=0,
        timestamp=utc_now(),
    )


def in_short(message: ChatMessage) -> str:
    shorts = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            shorts.append(f"{part.name}({part.call_id})")
        elif isinstance(part, ToolResultPart):
            shorts.append(f"{part.call_id}={part.content}")
        elif isinstance(part, TextPart):
            shorts.append(part.text)
    return f"{message.channel}: {' '.join(shorts)}"


def check_calls(messages: Sequence[ChatMessage]) -> None:
    """Every call has one result behind it, and the final is the last message."""
    waiting: list[str] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                assert part.call_id not in waiting
                waiting.append(part.call_id)
            elif isinstance(part, ToolResultPart):
                waiting.remove(part.call_id)
    assert not waiting
    finals = [message for message in messages[1:] if message.channel is Channel.FINAL]
    assert finals == [messages[-1]]


def noted(journal: Path) -> list[str]:
    """What tools have written down, in order."""
    return journal.read_text().split() if journal.exists() else []
