"""An agent that executes the steps in the ask; the working directory of a server gets a copy of this file.

An ask is a list of steps separated by `|`: `words 40 100` writes forty words, a hundred a second (0: at once);
`spout 40` writes them without yielding to the event loop; `hold 5` is silent for five seconds; any other step calls the
tool of that name, as `note a` or `pause 30`. The words are numbered, so that tests see missing and repeated ones. A
call ends a model message, after its text.
"""

import asyncio
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.mcp.mcp_runtime import MCPRuntime

NOTES = "notes.txt"
"""The file in the server's directory to which `note`, `send` and `stumble` add a line at each run."""

_held: list[bytes] = []
"""What `hoard` holds."""

_freed = threading.Event()
"""Set while `crowd` holds no threads."""
_crowd: set[asyncio.Task[bool]] = set()
_CROWD_S = 600

_STEP = "|"
_TOKENS = ("words", "spout", "hold")

ENTRIES: list[dict[str, Any]] = [
    {"id": "scripted", "class_path": "fault_agents:Scripted", "default": True},
    {"id": "replayed", "class_path": "fault_agents:Scripted", "auto_resume": True},
    {"id": "approved", "class_path": "fault_agents:Scripted", "require_approval": ["send"]},
]
MCP_ENTRY: dict[str, Any] = {
    "id": "remote",
    "class_path": "fault_agents:Remote",
    "tuning": {"mcp_servers": [{"id": "echo"}]},
}


def write_catalog(directory: Path, *entries: dict[str, Any]) -> None:
    """Write a catalog with these agents for a server that is started in `directory`."""
    shutil.copy(__file__, directory)
    (directory / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": [*ENTRIES, *entries]}))


def words(count: int) -> str:
    """The text of the step `words`."""
    return " ".join(map(str, range(1, count + 1)))


def notes(directory: Path) -> list[list[str]]:
    """The tools' notes: for each run the value of the call and the idempotency key."""
    path = directory / NOTES
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


class ScriptedModel(BaseChatModel):
    """Fails if a provider would refuse the history."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

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
        _check_history(messages)
        for name, *values in _next_steps(messages):
            if name == "words":
                async for word in _paced(int(values[0]), float(values[1])):
                    yield _chunk(word)
            elif name == "spout":
                for word in _numbered(int(values[0])):
                    yield _chunk(word)
            elif name == "hold":
                await asyncio.sleep(float(values[0]))
            else:
                arguments = f'{{"value": "{values[0]}"}}' if values else "{}"
                call = tool_call_chunk(name=name, args=arguments, id=f"call-{uuid4().hex}", index=0)
                yield _chunk("", tool_call_chunks=[call])
        yield _chunk("", chunk_position="last")


def _chunk(text: str, **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(text, **fields))


async def _paced(count: int, per_second: float) -> AsyncIterator[str]:
    # By the clock, so that a busy machine gets larger pieces instead of slower text.
    began = time.monotonic()
    for number, word in enumerate(_numbered(count), start=1):
        due_s = began + number / per_second - time.monotonic() if per_second else 0
        await asyncio.sleep(max(0.0, due_s))
        yield word


def _numbered(count: int) -> Iterator[str]:
    return (f"{' ' if number > 1 else ''}{number}" for number in range(1, count + 1))


def _next_steps(messages: Sequence[BaseMessage]) -> Iterator[list[str]]:
    """The steps after the calls of this exchange that have results, up to the next call."""
    asked = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
    called = sum(isinstance(message, ToolMessage) for message in messages[asked:])
    for step in messages[asked].text.split(_STEP):
        name, *values = step.split()
        if called == 0:
            yield [name, *values]
        if name not in _TOKENS:
            called -= 1
            if called < 0:
                return


def _check_history(messages: Sequence[BaseMessage]) -> None:
    """Check that a message with calls is directly followed by exactly their results."""
    expected: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            expected.remove(message.tool_call_id)
            continue
        if expected:
            raise ValueError(f"calls without their results: {expected}")
        if isinstance(message, AIMessage):
            expected = {str(call["id"]) for call in message.tool_calls}
    if expected:
        raise ValueError(f"calls without their results: {expected}")


def _note(value: str, runtime: ToolRuntime[Any, Any]) -> None:
    key = runtime.context.idempotency_key(runtime.tool_call_id)
    with Path(NOTES).open("a") as file:
        file.write(f"{value} {key}\n")


@tool
async def note(value: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Take a note."""
    _note(value, runtime)
    return f"noted {value}"


@tool
async def send(value: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Send something, which somebody has to approve."""
    _note(value, runtime)
    return f"sent {value}"


@tool
async def stumble(value: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Take a note and never come back; the second time come back at once."""
    _note(value, runtime)
    if [noted for noted, _ in notes(Path())].count(value) == 1:
        await asyncio.Event().wait()
    return f"did {value}"


@tool
async def pause(value: str) -> str:
    """Do nothing for some seconds."""
    await asyncio.sleep(float(value))
    return "paused"


@tool
def block(value: str) -> str:
    """Block a thread for some seconds."""
    time.sleep(float(value))
    return "blocked"


@tool
async def hoard(value: str) -> str:
    """Hold so many megabytes, instead of those from before."""
    _held[:] = [b"x" * (int(value) << 20)]
    return "held"


@tool
async def crowd(value: str) -> str:
    """Hold so many threads, for some minutes at most; 0 frees them."""
    _freed.set()
    if int(value):
        _freed.clear()
        _crowd.update(asyncio.create_task(asyncio.to_thread(_freed.wait, _CROWD_S)) for _ in range(int(value)))
    return "held"


@tool
async def freeze(value: str) -> str:
    """Block the event loop for some seconds, as code does that forgets to await."""
    time.sleep(float(value))
    return "frozen"


@tool
async def ignore(value: str) -> str:
    """Go on for some seconds, whoever cancels it."""
    until = time.monotonic() + float(value)
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    return "done"


TOOLS: list[BaseTool] = [note, send, stumble, pause, block, hoard, crowd, freeze, ignore]


class Scripted(AgentFlow):
    async def async_init(self) -> None:
        self._graph = create_agent(ScriptedModel(), tools=await self.tools(), middleware=self.approval_middleware())

    async def tools(self) -> list[BaseTool]:
        return TOOLS

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class Remote(Scripted):
    """The same model with the tools of the entry's MCP servers."""

    async def tools(self) -> list[BaseTool]:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        return self.mcp.get_tools()
