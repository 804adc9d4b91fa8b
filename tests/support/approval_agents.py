"""Agents that ask a person first; the working directory of a server process gets a copy of this file.

`approving` calls all tools that the ask names at once, one per line, as `send_email {"to": "ann@example.org"}`, then
reports their results. `choosing` asks for a choice, `inquiring` asks for a name; both repeat the answer.
"""

import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import CompiledGraph

NOTES_VARIABLE = "APPROVAL_NOTES"
"""The environment variable with the file to which the tools add a line at each run."""

WHY = "An email can't be taken back."
CHOICES = [
    {"id": "l", "label": "Left", "description": "along the river"},
    {"id": "r", "label": "Right", "description": "through the hills"},
]

_IDS = ("approving", "choosing", "inquiring")
ENTRIES: list[dict[str, Any]] = [{"id": id, "class_path": f"support.approval_agents:{id}"} for id in _IDS]


def write_catalog(directory: Path) -> None:
    """Write a catalog with these agents for a server that is started in `directory`."""
    shutil.copy(__file__, directory)
    agents = [{"id": id, "class_path": f"approval_agents:{id}", "default": id == _IDS[0]} for id in _IDS]
    (directory / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": agents}))


def calls(*named: tuple[str, dict[str, Any]]) -> str:
    """The ask that makes `approving` call these tools at once."""
    return "\n".join(f"{name} {json.dumps(args)}" for name, args in named)


def runs(notes: Path) -> list[tuple[str, dict[str, Any]]]:
    """The tool runs in order: name and arguments."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [(name, json.loads(args)) for name, args in (line.split(" ", 1) for line in lines)]


class CallingModel(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "calling"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        results = [message.text for message in messages[_asked(messages) :] if isinstance(message, ToolMessage)]
        if results:
            yield _chunk("; ".join(results))
        else:
            lines = messages[_asked(messages)].text.splitlines()
            yield _chunk("", tool_call_chunks=[_call(index, line) for index, line in enumerate(lines)])
        yield _chunk("", chunk_position="last")


def _asked(messages: Sequence[BaseMessage]) -> int:
    return max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))


def _call(index: int, line: str) -> Any:
    name, _, args = line.partition(" ")
    return tool_call_chunk(name=name, args=args, id=f"call-{uuid4().hex}", index=index)


def _chunk(text: str, **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(text, **fields))


def note(name: str, /, **args: Any) -> None:
    with Path(os.environ[NOTES_VARIABLE]).open("a") as file:
        file.write(f"{name} {json.dumps(args)}\n")


@tool
def send_email(to: str, body: str = "", copies: int = 1) -> str:
    """Send an email."""
    note("send_email", to=to, body=body, copies=copies)
    return f"sent to {to}"


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    note("delete_file", path=path)
    return f"deleted {path}"


# A title is what its tool's author says.
delete_file.metadata = {"title": "<b>Look\u202e only"}


def approving() -> CompiledGraph:
    asks = HumanInTheLoopMiddleware[Any, Any, Any](
        {
            "send_email": InterruptOnConfig(allowed_decisions=["approve", "edit", "reject"], description=WHY),
            "delete_file": InterruptOnConfig(allowed_decisions=["approve", "reject"], description=""),
        },
        interrupt_mode="per_call",
    )
    return create_agent(CallingModel(), tools=[send_email, delete_file], middleware=[asks])


def _one_node(node: Callable[[MessagesState], dict[str, Any]]) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile()


def _choose(state: MessagesState) -> dict[str, Any]:
    way = interrupt({"title": "A fork in the road", "question": "Which way?", "choices": CHOICES})
    return {"messages": [AIMessage(f"You went {way}.")]}


def _inquire(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"Hello {interrupt('What is your name?')}.")]}


choosing, inquiring = _one_node(_choose), _one_node(_inquire)
