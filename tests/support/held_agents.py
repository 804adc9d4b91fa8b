"""Agents whose model says two words, if it may, and then waits until the test releases it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import StructuredTool

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.offline.model import OfflineChatModel


class Hold:
    """`held` counts the current waiters; with `ignores_cancel`, only the release lets them continue."""

    def __init__(self, *, ignores_cancel: bool = False) -> None:
        self.released = asyncio.Event()
        self.held = 0
        self.gone = 0
        self._ignores_cancel = ignores_cancel

    async def wait(self) -> None:
        self.held += 1
        try:
            while not self.released.is_set():
                with contextlib.suppress(asyncio.CancelledError) if self._ignores_cancel else contextlib.nullcontext():
                    await self.released.wait()
        finally:
            self.held -= 1
            self.gone += 1


class HeldModel(OfflineChatModel):
    hold: Hold
    says_first: bool = True

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for word in ("one ", "two ") if self.says_first else ():
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        await self.hold.wait()
        yield ChatGenerationChunk(message=AIMessageChunk("three"))


def held_graph(hold: Hold, *, says_first: bool = True) -> CompiledGraph:
    """A model without tools, held in the middle of its answer; unless it `says_first` two words, before it."""
    return build(HeldModel(hold=hold, says_first=says_first))


def held_tool_graph(hold: Hold) -> CompiledGraph:
    """The offline model with a tool `work` that is held."""

    async def work() -> str:
        """Work until it is done."""
        await hold.wait()
        return "worked"

    return create_agent(OfflineChatModel(words_per_second=0), tools=[StructuredTool.from_function(coroutine=work)])
