"""An agent that writes when its test allows it: the shipped assistant's tools and phrases, one piece at a time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.experts.assistant.tools import TOOLS
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.offline.phrases import lorem

ENTRY: dict[str, Any] = {"id": "paced", "class_path": "support.paced_agent:PacedAgent"}

WORDS = 120
ASK = f"write {WORDS} words"

_ALL = 10_000


class Pace:
    """The number of pieces, mostly words, that may still be written."""

    def __init__(self) -> None:
        self._allowed = asyncio.Semaphore(0)
        self.waiting = 0
        """The answers that wait to write on."""

    def write(self, words: int) -> None:
        for _ in range(words):
            self._allowed.release()

    def finish(self) -> None:
        self.write(_ALL)

    async def step(self) -> None:
        self.waiting += 1
        try:
            await self._allowed.acquire()
        finally:
            self.waiting -= 1


pace = Pace()
"""The pace of the running test; `begin` replaces it."""


def begin() -> Pace:
    global pace
    pace = Pace()
    return pace


def first_words(words: int) -> str:
    """The first words of the answer to ASK."""
    return " ".join(lorem(WORDS).split()[:words])


class _PacedModel(OfflineChatModel):
    words_per_second: float = 0

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
            await pace.step()
            yield chunk


class PacedAgent(AgentFlow):
    async def async_init(self) -> None:
        self._graph = create_agent(_PacedModel(), tools=list(TOOLS))

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
