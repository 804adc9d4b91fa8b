"""An agent whose model and tools bring texts that no UTF-8 can hold, and control characters."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import ToolException, tool
from langgraph.config import get_stream_writer
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import CompiledGraph

MODULE = "support.odd_texts"
NAME = b"caf\xe9".decode("utf-8", "surrogateescape")
SHOWN = "caf\ufffd"


class OddModel(BaseChatModel):
    """Calls the tool that it is asked for with half a character in a chunk, then says what the tool has said."""

    @property
    def _llm_type(self) -> str:
        return "odd"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.bind()

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        # A model without streaming, as those that name a session.
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"On \ud83d\ude00 {NAME}"))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages):
            yield ChatGenerationChunk(message=chunk)

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            yield chunk

    def _chunks(self, messages: list[BaseMessage]) -> Iterator[AIMessageChunk]:
        # As a provider's client does, which encodes all that it sends.
        for message in messages:
            str(message).encode()
        last = messages[-1]
        if isinstance(last, ToolMessage):
            for piece in ("It is \ud83d", f"\ude00 {last.text}", "\ud83d"):
                yield AIMessageChunk(piece)
            return
        yield AIMessageChunk("", additional_kwargs={"reasoning_content": "Hm \ud83d"})
        yield AIMessageChunk("", additional_kwargs={"reasoning_content": "\ude00"})
        name = last.text.split()[0]
        for index, args in enumerate(('{"of": "\ud83d', '\ude00"}')):
            called = tool_call_chunk(name=None if index else name, id=None if index else "c1", args=args, index=0)
            yield AIMessageChunk("", tool_call_chunks=[called])


@tool(response_format="content_and_artifact")
def lists(of: str) -> tuple[list[Any], Any]:
    """Names of files, which are bytes."""
    get_stream_writer()({"found": NAME})
    part = {"type": "link", "title": NAME, "href": "https://example.org", "kind": "view"}
    return [{"type": "text", "text": f"{of} {NAME}"}], {"parts": [part], NAME: NAME}


@tool
def fails(of: str) -> str:
    """Fails with the name of a file."""
    raise ToolException(f"{of} {NAME}")


fails.handle_tool_error = True


@tool
def raises(of: str) -> str:
    """Raises what nobody handles."""
    raise OSError(2, "No such file", NAME)


@tool
def asks(of: str) -> str:
    """Asks a person about a file."""
    return f"{of} {interrupt({'question': NAME})}"


def odd_agent() -> CompiledGraph:
    return create_agent(OddModel(), tools=[lists, fails, raises, asks])


ENTRIES = [{"id": "odd", "class_path": f"{MODULE}:odd_agent"}]
