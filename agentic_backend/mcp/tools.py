"""MCP tools as LangChain tools. A tool finds its server's live session when it is called, so it outlives a restart.

A call that a model made in a run carries `agentic-backend/idempotency-key` in the request's `_meta`: the same key where
the run was interrupted in the call, and makes it again. A server that knows the key does the work once.
"""

import contextlib
import contextvars
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from langgraph.config import get_stream_writer
from langgraph.runtime import Runtime, get_runtime
from mcp.types import Tool
from pydantic import ConfigDict

from agentic_backend.mcp.progress import Report
from agentic_backend.mcp.results import Converted, converted
from agentic_backend.mcp.server_session import ServerSession, ToolFailure
from agentic_backend.mcp.tool_name import tool_name

_LONGEST_MESSAGE = 1000
_IDEMPOTENCY_KEY = "agentic-backend/idempotency-key"

_call_id: contextvars.ContextVar[str | None] = contextvars.ContextVar("mcp_call_id", default=None)
"""The call that an McpTool answers in this task."""


@runtime_checkable
class _KnowsKeys(Protocol):
    """What a run's context tells of its tool calls."""

    def idempotency_key(self, call_id: str) -> str: ...


def langchain_tools(offers: Sequence[tuple[ServerSession, Tool]], *, model_sees_images: bool) -> list[BaseTool]:
    """A LangChain tool for each MCP tool; where two servers have one of the same name, both bear their server's id."""
    taken = Counter(tool_name(tool.name) for _, tool in offers)
    return [
        McpTool(
            name=tool_name(tool.name if taken[tool_name(tool.name)] == 1 else f"{session.server_id}_{tool.name}"),
            description=tool.description or "",
            args_schema=tool.inputSchema,
            metadata=tool.annotations.model_dump() if tool.annotations is not None else None,
            session=session,
            called=tool.name,
            model_sees_images=model_sees_images,
        )
        for session, tool in offers
    ]


def _told(failure: ToolException) -> Any:
    """What the model is told of a failure, in a message that LangChain gives the status `error`."""
    return failure.args[0]


class McpTool(BaseTool):
    """A tool that its server calls `called`.

    No StructuredTool, which keeps arguments of some names (`config`, `runtime`, `self`) to itself.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    session: ServerSession
    called: str
    model_sees_images: bool
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = _told

    async def ainvoke(
        self, input: str | dict[str, Any] | ToolCall, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        call_id = input.get("id") if isinstance(input, dict) and input.get("type") == "tool_call" else None
        token = _call_id.set(call_id if isinstance(call_id, str) else None)
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _call_id.reset(token)

    async def _arun(self, /, **arguments: Any) -> tuple[list[dict[str, Any]] | str, dict[str, Any] | None]:
        call_id = _call_id.get()
        try:
            result = await self.session.call(self.called, arguments, _progress(self.name, call_id), _meta(call_id))
        except ToolFailure as failure:
            raise ToolException(str(failure)) from failure
        made = converted(result, model_sees_images=self.model_sees_images)
        if result.isError:
            raise ToolException(_content(made))
        parts = [part.model_dump(mode="json") for part in made.parts]
        return _content(made), {"parts": parts} if parts else None

    def _run(self, /, **arguments: Any) -> Any:
        raise NotImplementedError("MCP tools are called with ainvoke.")


def _content(made: Converted) -> list[dict[str, Any]] | str:
    """Text alone as text, which every provider takes."""
    texts = [block["text"] for block in made.blocks if block["type"] == "text"]
    return "\n".join(texts) if len(texts) == len(made.blocks) else made.blocks


def _meta(call_id: str | None) -> dict[str, Any] | None:
    """The `_meta` of the request for a call; None where there is no run whose call it is."""
    try:
        runtime: Runtime[Any] | None = get_runtime()
    except (RuntimeError, KeyError):
        # An author called it outside of a graph.
        return None
    context = runtime.context if runtime is not None else None
    if call_id is None or not isinstance(context, _KnowsKeys):
        return None
    return {_IDEMPOTENCY_KEY: context.idempotency_key(call_id)}


def _progress(tool: str, call_id: str | None) -> Report:
    """Tells the graph's custom stream of each notification. Made within the call, whose graph it belongs to."""
    # MCP calls it in the session's task, where no graph runs.
    graph = contextvars.copy_context()
    about: dict[str, Any] = {"tool": tool, "call_id": call_id}

    def report(progress: float, total: float | None, message: str | None) -> None:
        told = {"progress": progress, "total": total, "message": message and message[:_LONGEST_MESSAGE]}
        graph.run(_write, {key: value for key, value in (about | told).items() if value is not None})

    return report


def _write(data: dict[str, Any]) -> None:
    # An author may call a tool outside of a graph, where nobody follows: LangGraph raises then.
    with contextlib.suppress(RuntimeError, KeyError):
        get_stream_writer()(data)
