"""Agents that raise what ends a process; the catalog's directory gets a copy of this file.

The first word of a message says what is raised, the second where.
"""

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import yaml
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph

RAISED: dict[str, type[BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "exit": SystemExit,
    "generator": GeneratorExit,
    "base": BaseException,
}


def write_catalog(directory: Path) -> Path:
    """Write a catalog with these agents, and this module beside it; the catalog's path."""
    shutil.copy(__file__, directory)
    entries = [
        {"id": "quitting", "class_path": "quitting_agents:graph"},
        {"id": "quits-at-start", "class_path": "quitting_agents:QuitsAtStart"},
        {"id": "quitting-factory", "class_path": "quitting_agents:factory"},
        {"id": "plain", "class_path": "agentic_backend.experts.plain_chat.graph:build", "default": True},
    ]
    catalog = directory / "agents_catalog.yaml"
    catalog.write_text(yaml.safe_dump({"agents": entries}))
    return catalog


def _quit(state: MessagesState) -> None:
    raised = RAISED.get(state["messages"][-1].text.split()[0])
    if raised is not None:
        raise raised


async def _quit_in_a_task(state: MessagesState) -> None:
    await asyncio.gather(asyncio.create_task(_quit_soon(state)))


async def _quit_soon(state: MessagesState) -> None:
    await asyncio.sleep(0)
    _quit(state)


async def _in_loop(state: MessagesState) -> dict[str, Any]:
    if state["messages"][-1].text.endswith("loop"):
        _quit(state)
    if state["messages"][-1].text.endswith("task"):
        await _quit_in_a_task(state)
    return {"messages": [AIMessage("still here")]}


def _in_thread(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    if state["messages"][-1].text.endswith("thread"):
        _quit(state)
    return {}


_builder = StateGraph(MessagesState)
_builder.add_node("in_thread", _in_thread)
_builder.add_node("in_loop", _in_loop)
_builder.add_edge(START, "in_thread")
_builder.add_edge("in_thread", "in_loop")
graph = _builder.compile()


class QuitsAtStart(AgentFlow):
    async def async_init(self) -> None:
        raise KeyboardInterrupt

    def get_compiled_graph(self) -> CompiledGraph:
        return graph


def factory() -> CompiledGraph:
    time.sleep(0)
    raise KeyboardInterrupt
