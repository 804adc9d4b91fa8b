"""deepagents: files, todos, and a researcher that works inside the tool `task`."""

import asyncio
from typing import Any

from deepagents import create_deep_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from support.phrase_model import PhraseModel


@tool
def dig(place: str) -> str:
    """Digs."""
    return f"Found a coin in {place}"


@tool
async def dig_deeper() -> str:
    """Digs until it is stopped."""
    await asyncio.Event().wait()
    return "unreachable"


@tool
def show_todos(runtime: ToolRuntime[Any, Any]) -> str:
    """Shows the todos."""
    return ", ".join(f"{todo['content']}: {todo['status']}" for todo in runtime.state.get("todos", [])) or "nothing"


def _deep_agent(model: PhraseModel) -> CompiledStateGraph[Any, Any, Any, Any]:
    return create_deep_agent(
        model,
        tools=[show_todos],
        system_prompt="You do what you are told.",
        middleware=[TodoListMiddleware()],
        subagents=[
            {"name": "researcher", "description": "Digs.", "system_prompt": "You dig.", "tools": [dig, dig_deeper]}
        ],
    )


graph = _deep_agent(PhraseModel())
slow = _deep_agent(PhraseModel(words_per_second=5))
