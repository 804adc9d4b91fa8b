"""Runs a graph that pauses, as the server does: it always continues from the packed bytes alone."""

import copy
from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Interrupt

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.people.interrupts import resume_values


class PausingGraph:
    def __init__(self, graph: CompiledGraph, context: Any = None) -> None:
        self._graph = copy.copy(graph)
        self._context = context
        self._packed = ExchangeCheckpoints().pack()
        self._config = RunnableConfig(configurable={"thread_id": "exchange"})

    async def ask(self, text: str = "go") -> list[Interrupt]:
        """Start the graph with `text`; return the interrupts at which it pauses."""
        return await self._run({"messages": [HumanMessage(text)]})

    async def settle(self, waiting: Iterable[Interrupt], decisions: Iterable[HumanDecision]) -> list[Interrupt]:
        """Continue with the decisions; return the next interrupts."""
        return await self._run(Command(resume=resume_values(waiting, decisions)))

    async def messages(self) -> list[AnyMessage]:
        state = await self._at_rest().aget_state(self._config)
        return list(state.values["messages"])

    async def results(self) -> list[str]:
        return [message.text for message in await self.messages() if isinstance(message, ToolMessage)]

    async def _run(self, given: Any) -> list[Interrupt]:
        checkpoints = ExchangeCheckpoints.unpack(self._packed)
        self._graph.checkpointer = checkpoints
        async for _ in self._graph.astream(
            given, self._config, context=self._context, stream_mode=["updates"], subgraphs=True, durability="exit"
        ):
            pass
        self._packed = checkpoints.pack()
        return list((await self._at_rest().aget_state(self._config)).interrupts)

    def _at_rest(self) -> CompiledGraph:
        self._graph.checkpointer = ExchangeCheckpoints.unpack(self._packed)
        return self._graph
