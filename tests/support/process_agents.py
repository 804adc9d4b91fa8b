"""Agents of a server in a separate process; its working directory gets a copy of this file."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import CompiledGraph

ENTRIES: list[dict[str, Any]] = [
    {
        "id": "assistant",
        "class_path": "agentic_backend.experts.assistant.assistant:Assistant",
        "default": True,
    },
    {"id": "asking", "class_path": "process_agents:asking"},
    {"id": "counting", "class_path": "process_agents:counting"},
    {"id": "stubborn", "class_path": "process_agents:stubborn"},
    {"id": "blocking", "class_path": "process_agents:blocking"},
    {"id": "leaving", "class_path": "process_agents:leaving"},
]


def write_catalog(directory: Path) -> None:
    """Write a catalog with these agents for a server that is started in `directory`."""
    shutil.copy(__file__, directory)
    (directory / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": ENTRIES}))


def _graph(node: Callable[[MessagesState], Any]) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile()


def _ask(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(str(interrupt("Which one?")))]}


def _count(state: MessagesState) -> dict[str, Any]:
    """Answer with the messages received; fail if a call has no result."""
    open_calls = set()
    for message in state["messages"]:
        open_calls |= {call["id"] for call in getattr(message, "tool_calls", [])}
        open_calls -= {getattr(message, "tool_call_id", None)}
    assert not open_calls
    heard = [message.text for message in state["messages"] if isinstance(message, HumanMessage)]
    return {"messages": [AIMessage("|".join(heard))]}


asking, counting = _graph(_ask), _graph(_count)


async def _never_stop() -> str:
    """Work on, whatever happens."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


def _block() -> str:
    """Block a thread."""
    time.sleep(3600)
    return "done"


def _leave() -> str:
    """End the process, from a thread."""
    sys.exit(3)


async def _leave_at_once() -> str:
    """End the process."""
    sys.exit(3)


def leaving(model: BaseChatModel) -> CompiledGraph:
    tools = [
        StructuredTool.from_function(_leave, name="leave"),
        StructuredTool.from_function(coroutine=_leave_at_once, name="leave_at_once"),
    ]
    return create_agent(model, tools=tools)


def stubborn(model: BaseChatModel) -> CompiledGraph:
    return create_agent(model, tools=[StructuredTool.from_function(coroutine=_never_stop, name="work")])


def blocking(model: BaseChatModel) -> CompiledGraph:
    return create_agent(model, tools=[StructuredTool.from_function(_block, name="work")])
