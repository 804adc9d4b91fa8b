"""Agents with names whose provider counts tokens or not, agents that speak at the same time, and a crew that fails."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from graphs.texts import ChunkModel
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow

_USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
_NO_USAGE = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


def _named(usage: Any) -> Any:
    """Within another graph, as an agent of a team is."""
    chunks = [AIMessageChunk("Hel", id="m1"), AIMessageChunk("lo", id="m1", usage_metadata=usage)]
    builder = StateGraph(MessagesState)
    builder.add_node("team", create_agent(ChunkModel(chunks=chunks), [], name="ada"))
    builder.add_edge(START, "team")
    return builder.compile()


counted, uncounted, counted_as_nothing = _named(_USAGE), _named(None), _named(_NO_USAGE)


class _Voice(ChunkModel):
    """Begins when `begins` is set, ends when `may_end` is, and sets the events of those that follow."""

    number: int
    begins: Any
    next_begins: Any
    may_end: Any
    next_may_end: Any

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async with asyncio.timeout(30):
            await self.begins.wait()
            yield ChatGenerationChunk(message=AIMessageChunk(f"voice {self.number} "))
            self.next_begins.set()
            await self.may_end.wait()
        yield ChatGenerationChunk(message=AIMessageChunk("ends"))
        self.next_may_end.set()


def _choir(*order_of_ends: int) -> Any:
    """Voices that begin in the order of their numbers, and end in another one; a new graph for each session."""
    size = len(order_of_ends)
    begins, ends = ([asyncio.Event() for _ in range(size + 1)] for _ in range(2))
    begins[0].set()
    builder = StateGraph(MessagesState)
    for number in range(size):
        place = order_of_ends.index(number)
        model = _Voice(
            chunks=[],
            number=number,
            begins=begins[number],
            next_begins=begins[number + 1],
            # The first to end waits until all have begun.
            may_end=ends[place] if place else begins[size],
            next_may_end=ends[place + 1],
        )

        async def sing(state: MessagesState, model: Any = model) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder.add_node(f"voice{number}", sing)
        builder.add_edge(START, f"voice{number}")
    return builder.compile()


def last_ends_first() -> Any:
    return _choir(2, 1, 0)


def middle_ends_first() -> Any:
    return _choir(1, 2, 0)


def first_ends_first() -> Any:
    return _choir(0, 2, 1)


def raising() -> Any:
    def fail(state: MessagesState) -> dict[str, Any]:
        raise ValueError("the expert's secret")

    builder = StateGraph(MessagesState)
    builder.add_node("fail", fail)
    builder.add_edge(START, "fail")
    return builder.compile()


class _Asking(ChunkModel):
    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = tool_call_chunk(name="ask_scout", args='{"question": "where?"}', id="a1", index=0)
        is_done = messages[-1].type == "tool"
        self.chunks = [AIMessageChunk("Nobody knows.")] if is_done else [AIMessageChunk("", tool_call_chunks=[call])]
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


class Chief(LeaderFlow):
    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        self._graph = create_agent(_Asking(chunks=[]), tools=self.delegation_tools(crew))

    def get_compiled_graph(self) -> Any:
        return self._graph


CHOIRS = ["last-ends-first", "middle-ends-first", "first-ends-first"]
AGENTS = [
    *(
        {"id": name, "class_path": f"graphs.counted:{name.replace('-', '_')}"}
        for name in ["counted", "uncounted", "counted-as-nothing", *CHOIRS]
    ),
    {"id": "scout", "class_path": "graphs.counted:raising"},
    {"id": "chief", "type": "leader", "crew": ["scout"], "class_path": "graphs.counted:Chief"},
]
