"""A GraphRun driven as by its exchange: each result has a checkpoint, from which another run can continue."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.topics.chat_profiles import BUILT_IN_PROFILES
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.lifecycle import Lifecycle, Outcome
from agentic_backend.exchange.past.compactor import Compactor
from agentic_backend.exchange.run.background_calls import BackgroundCalls
from agentic_backend.exchange.run.graph_run import GraphRun
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart, ResumePoint
from agentic_backend.exchange.write.outbox import Outbox
from agentic_backend.exchange.write.writer import QueryWriter
from agentic_backend.kpi import Kpi
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.prompt.token_counts import TokenCounts
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.protocol.messages import Channel, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.base import Checkpoint, FencedOut
from agentic_backend.stores.records import ExchangeRecord, HumanDecision, MessageRecord
from agentic_backend.stores.sqlite import SqliteStore
from support.decisions import decide
from support.recorded_agents import agent_factory, agent_services, context_of, entry_of
from support.sessions import idle_relay
from support.turn_model import TurnModel

PATIENCE_S = 30.0


class ReadingModel(TurnModel):
    """Says the turn that follows the messages of the given conversation, even if another instance said those."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._said = sum(isinstance(message, AIMessage) for message in messages)
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


class DrivenRun:
    """`messages` are those of the exchange so far, `packs` the checkpoints at its results."""

    def __init__(
        self, store: SqliteStore, graph: CompiledGraph, exchange_id: str = "e1", resume_point: ResumePoint | None = None
    ) -> None:
        self.packs: list[bytes] = []
        self.context = context_of(None)
        self.context.exchange_id = self.context.run_id = exchange_id
        self.opening = opening_of(exchange_id)
        start = ExchangeStart(query_record(exchange_id), entry_of(graph), None, self.opening, resume_point)
        self.graph_run = GraphRun(start, self.context, exchange_services(store))
        self._lifecycle = Lifecycle()
        self._outbox = Outbox(
            QueryWriter(store, UsageLedger(store, Prices(), Kpi()), exchange_id),
            ExchangeLog(None, exchange_id),
            self._lifecycle,
            self._checkpoint_at,
            start.stored,
        )

    async def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Run until it ends or pauses; if `until` holds before, cut it as if its process had died."""
        graph = asyncio.create_task(self.graph_run.run(self._outbox))
        graph.add_done_callback(lambda _: self._lifecycle.wakeup.set())
        async with asyncio.timeout(PATIENCE_S):
            while not graph.done() and not until():
                self._lifecycle.wakeup.clear()
                await self._write()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await self._lifecycle.wakeup.wait()
            if not graph.done():
                graph.cancel()
                await asyncio.wait({graph})
                return
            transcoder = graph.result().transcoder
            self._outbox.accept(transcoder.pause(1e9) if transcoder.waiting else transcoder.finish(1e9))
            await self._write()

    async def after_the_pause(self, *actions: Any, answer: str | None = None) -> ResumePoint:
        """The point from which the same exchange continues after people's decisions or their `answer`."""
        started, state = self.graph_run.started, await self.graph_run.checkpoint()
        assert started is not None and state is not None and started.transcoder.waiting is not None
        interrupts = ExchangeCheckpoints.unpack(state).interrupts
        if answer is None:
            decisions = decide(interrupts, *actions)
        else:
            decisions = [
                HumanDecision(interrupt_id=one.id, action="answer", by="ann", at=utc_now(), answer=answer)
                for one in interrupts
            ]
        return ResumePoint(state, decisions, self.messages, 100, started.transcoder.usage)

    @property
    def messages(self) -> list[MessageRecord]:
        return self._outbox.stored

    def told(self) -> list[str]:
        """The messages after the opening, in short."""
        return [in_short(message) for message in self.messages[1:]]

    async def _write(self) -> None:
        await self._outbox.write()

    async def _checkpoint_at(self, boundary: ToolCallPart | ToolResultPart) -> Checkpoint | None:
        state = await self.graph_run.checkpoint()
        assert state is not None
        if isinstance(boundary, ToolResultPart):
            self.packs.append(state)
        return None


def in_a_new_exchange(state: bytes) -> ResumePoint:
    return ResumePoint(state, None, [opening_of("e2")], 0, TokenUsage())


def exchange_services(store: SqliteStore) -> ExchangeServices:
    async def show_stored(log: ExchangeLog) -> bool:
        return False

    async def close(record: ExchangeRecord, outcome: Outcome, running: ExchangeLog) -> None:
        raise FencedOut

    relay, ledger, kpi = idle_relay(), UsageLedger(store, Prices(), Kpi()), Kpi()
    models, counts = agent_services().models, TokenCounts()
    return ExchangeServices(
        instance=Instance(lease_s=15),
        store=store,
        relay=relay,
        factory=agent_factory(),
        kpi=kpi,
        limits=LimitsSettings(),
        tokens=TokenCache(DeveloperAuthenticator("developer").refresh),
        ledger=ledger,
        profiles=lambda: BUILT_IN_PROFILES,
        token_counts=counts,
        compactor=Compactor(store, relay, models, ledger, kpi, counts, lambda: BUILT_IN_PROFILES, timeout_s=5),
        modules=ModuleSupervisor(store, kpi, relay.spawn),
        background=BackgroundCalls(Instance(15), store, idle_relay(), LimitsSettings(), Kpi()),
        show_stored=show_stored,
        close=close,
        on_answered=lambda session, opening, exchange, status: None,
    )


def query_record(exchange_id: str) -> ExchangeRecord:
    return ExchangeRecord(
        id=exchange_id, session_id="", user_id="user", agent_id="recorded", request_id="request", started_at=utc_now()
    )


def opening_of(exchange_id: str) -> MessageRecord:
    return MessageRecord(
        role=Role.USER,
        channel=Channel.FINAL,
        parts=[TextPart(text="Do it.")],
        session_id=None,
        exchange_id=exchange_id,
        rank=0,
        timestamp=utc_now(),
    )


def in_short(message: MessageRecord) -> str:
    shorts = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            shorts.append(f"{part.name}({part.call_id})")
        elif isinstance(part, ToolResultPart):
            shorts.append(f"{part.call_id}={part.content}")
        elif isinstance(part, TextPart):
            shorts.append(part.text)
    return f"{message.channel}: {' '.join(shorts)}"


def check_calls(messages: Sequence[MessageRecord]) -> None:
    """Check that every call is followed by one result, and that the final is the last message."""
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
    """The notes of the tools, in order."""
    return journal.read_text().split() if journal.exists() else []
