"""Graphs whose asynchronous code blocks the event loop, in ways that their authors don't see."""

import asyncio
import time
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, HookResult

BLOCKED_S = 1.5


class Sleeping(ChatModule):
    """A module that blocks before the agent starts."""

    async def before_ai(self, context: HookContext) -> HookResult:
        time.sleep(BLOCKED_S)
        return CONTINUE


def _one_node(name: str, node: Any) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node(name, node)
    graph.add_edge(START, name)
    return graph.compile()


async def _sleep(state: MessagesState) -> dict[str, Any]:
    time.sleep(BLOCKED_S)  # line: sleeps
    return {"messages": [AIMessage("slept")]}


async def _sleep_twice(state: MessagesState) -> dict[str, Any]:
    for _ in range(2):
        time.sleep(BLOCKED_S)
        await asyncio.sleep(0.2)
    return {"messages": [AIMessage("slept twice")]}


def _busily() -> None:
    # By its own clock: while the process does not run, nothing is blocked.
    until = time.thread_time() + BLOCKED_S
    while time.thread_time() < until:
        sum(range(1000))  # line: computes


async def _compute(state: MessagesState) -> dict[str, Any]:
    await asyncio.gather(*(asyncio.create_task(asyncio.to_thread(lambda: None)) for _ in range(2)))

    async def deep() -> None:
        _busily()

    # In a task of its own, as `asyncio.gather` makes one.
    await asyncio.gather(deep())
    return {"messages": [AIMessage("computed")]}


async def _never_end(state: MessagesState) -> dict[str, Any]:
    while True:
        _busily()


async def _go_on_after(state: MessagesState) -> dict[str, Any]:
    """Work in steps that are short, for as long as it takes to be suspended in one of them."""
    until = time.monotonic() + 2 * BLOCKED_S
    while time.monotonic() < until:
        sum(range(300_000))
        await asyncio.sleep(0)
    return {"messages": [AIMessage("went on")]}


async def _wait(state: MessagesState) -> dict[str, Any]:
    await asyncio.sleep(BLOCKED_S)
    return {"messages": [AIMessage("waited")]}


async def _often(state: MessagesState) -> dict[str, Any]:
    """Take long, in many short steps of many tasks."""

    async def short() -> None:
        for _ in range(5):
            time.sleep(0.01)
            await asyncio.sleep(0)

    await asyncio.gather(*(short() for _ in range(20)))
    return {"messages": [AIMessage("often")]}


def _in_a_thread(state: MessagesState) -> dict[str, Any]:
    time.sleep(BLOCKED_S)
    return {"messages": [AIMessage("slept in a thread")]}


sleeping_twice = _one_node("sleep", _sleep_twice)
sleeping = _one_node("sleep", _sleep)
computing = _one_node("compute", _compute)
never_ending = _one_node("never_end", _never_end)
going_on = _one_node("go_on", _go_on_after)
waiting = _one_node("wait", _wait)
often = _one_node("often", _often)
in_a_thread = _one_node("in_a_thread", _in_a_thread)


@tool
async def look_up(word: str) -> str:
    """Look a word up."""
    time.sleep(BLOCKED_S)  # line: looks up
    return f"looked {word} up"


def with_tool(model: BaseChatModel) -> CompiledGraph:
    return create_agent(model, tools=[look_up])


class Starting(AgentFlow):
    async def async_init(self) -> None:
        time.sleep(BLOCKED_S)  # line: starts

    def get_compiled_graph(self) -> CompiledGraph:
        return waiting


class Expert(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return sleeping


class Leader(LeaderFlow):
    async def async_init(self, crew: Any = NO_CREW) -> None:
        self._graph = create_agent(self.chat_model(), tools=self.delegation_tools(crew))

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
