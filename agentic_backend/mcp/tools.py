"""MCP tools as LangChain tools: langchain-mcp-adapters converts them, and this module works around its limits.

The adapter binds a tool to one session; it gets a `_Session`, which finds the server's live session at each call, so
tools outlive a server's restart (https://github.com/langchain-ai/langchain-mcp-adapters/issues/75).

A model's call in a run carries `agentic-backend/idempotency-key` in the request's `_meta`. If the run is interrupted
during the call and repeats it, the key is the same, so a server that supports the key does the work once.
"""

import asyncio
import contextlib
import contextvars
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from langchain_core.tools import BaseTool, StructuredTool
from langchain_mcp_adapters.callbacks import CallbackContext, Callbacks
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from langgraph.config import get_stream_writer
from langgraph.runtime import get_runtime
from mcp import ClientSession
from mcp.shared.session import ProgressFnT
from mcp.types import CallToolResult, Tool
from pydantic import Field

from agentic_backend.config.topics.permissions import PERMISSIONS
from agentic_backend.disclosure.exception_detail import type_of
from agentic_backend.mcp import APP_PART, POLICY_NAMES, TITLE, distinct_names, policy_metadata, tool_name
from agentic_backend.mcp.apps.kept_resources import KeptResource, KeptResources, in_time
from agentic_backend.mcp.apps.ui_resources import Origin, is_for_models, part_of, title_of, uri_of, whole_result
from agentic_backend.mcp.results import readable
from agentic_backend.mcp.server_session import ServerSession
from agentic_backend.mcp.usable_tools import tell_left_out
from agentic_backend.protocol.parts import CodePart, CustomPart

_LONGEST_MESSAGE = 1000
_IDEMPOTENCY_KEY = "agentic-backend/idempotency-key"


@dataclass(frozen=True, slots=True)
class _Call:
    tool: str
    """The tool's name for the model."""
    id: str | None
    """The model's id of the call; None if an author calls the tool without one."""


_call: contextvars.ContextVar[_Call] = contextvars.ContextVar("mcp_call")
"""The McpTool's call in this context, since the adapter passes on neither its id nor its name."""


class ToolRun(Protocol):
    """The part of a RuntimeContext that tools are called with."""

    def idempotency_key(self, call_id: str) -> str: ...
    @property
    def keep_ui_resource(self) -> Callable[[str], Awaitable[str | None]] | None: ...


@dataclass(frozen=True, slots=True)
class AgentTools:
    """What the tools of one agent share."""

    agent_id: str
    run: Callable[[], ToolRun]
    """Returns the current run, whose keys the calls carry."""
    needed: Callable[[str, Sequence[str]], Sequence[str]]
    """Returns the permissions that a tool needs, by the server's id and all names by which policy may mean the tool."""
    resources: KeptResources


def langchain_tools(
    offers: Sequence[tuple[ServerSession, Tool]], given: AgentTools, *, model_sees_images: bool
) -> list[BaseTool]:
    """A LangChain tool for each MCP tool; one that LangChain can't take is left out, with a line.

    Tools with the same name get their server's id as a prefix. If that isn't enough, because names differ only in what
    providers don't accept, they also get a number.
    """
    tools: list[BaseTool] = []
    for (session, tool), name in zip(offers, _names(offers), strict=True):
        more = _guards_of(session, tool, name, given)
        try:
            tools.append(_langchain_tool(session, tool, name, more, given, model_sees_images=model_sees_images))
        # Whatever the adapter raises of one tool, the others are there.
        except Exception as error:
            tell_left_out(session.server_id, tool.name, f"LangChain can't take it: {type_of(error)}")
    return tools


def _guards_of(session: ServerSession, tool: Tool, name: str, given: AgentTools) -> dict[str, Any]:
    """The part of a tool's metadata by which policy means it."""
    meant = policy_metadata(session.server_id, tool.name, name)
    return {**meant, PERMISSIONS: list(given.needed(session.server_id, meant[POLICY_NAMES]))}


def _langchain_tool(
    session: ServerSession,
    tool: Tool,
    name: str,
    metadata: Mapping[str, Any],
    given: AgentTools,
    *,
    model_sees_images: bool,
) -> BaseTool:
    adapted = convert_mcp_tool_to_langchain_tool(
        cast(ClientSession, _Session(session, given.run)),
        tool,
        callbacks=Callbacks(on_progress=_tell_graph),
        tool_interceptors=[_Readable(session, tool, given, model_sees_images=model_sees_images)],
        server_name=session.server_id,
    )
    # The adapter keeps only that of the annotations, over which MCP prefers the tool's own.
    titled = {TITLE: tool.title} if tool.title else {}
    return McpTool.adapting(cast(StructuredTool, adapted), name, {**titled, **metadata})


def _names(offers: Sequence[tuple[ServerSession, Tool]]) -> list[str]:
    taken = Counter(tool_name(tool.name) for _, tool in offers)
    prefixed = [
        tool.name if taken[tool_name(tool.name)] == 1 else f"{session.server_id}_{tool.name}"
        for session, tool in offers
    ]
    return distinct_names([tool_name(name) for name in prefixed])


class _ServerTool(BaseTool):
    """A tool with arguments of any name."""

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # All arguments as one value: LangChain reserves the names `config` and `run_manager`, and the adapter
        # `runtime`. https://github.com/langchain-ai/langchain-mcp-adapters/issues/532
        _, arguments = super()._to_args_and_kwargs(tool_input, tool_call_id)
        return (), {"arguments": arguments, "call": _Call(self.name, tool_call_id)}

    def _run(self, /, **arguments: Any) -> Any:
        raise NotImplementedError("Call MCP tools with ainvoke.")


class McpTool(_ServerTool):
    """A tool of the adapter under a name that every provider accepts.

    MCP allows more names than they do: https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1345
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    adapted: StructuredTool
    """The adapter's tool, which calls the server."""

    @classmethod
    def adapting(cls, adapted: StructuredTool, name: str, metadata: Mapping[str, Any]) -> "McpTool":
        """`metadata` goes before the server's own, which says nothing of permissions."""
        told = adapted.handle_tool_error
        assert callable(told), "the adapter tells the model of errors"
        return cls(
            name=name,
            description=adapted.description,
            args_schema=adapted.args_schema,
            metadata={**(adapted.metadata or {}), **metadata},
            handle_tool_error=lambda error: _as_text(told(error)),
            adapted=adapted,
        )

    async def _arun(self, arguments: dict[str, Any], call: _Call) -> tuple[list[Any] | str, dict[str, Any] | None]:
        # LangChain runs each call in its own context.
        _call.set(call)
        assert self.adapted.coroutine is not None
        content, artifact = await self.adapted.coroutine(arguments=arguments)
        return _as_text(content), artifact and artifact["structured_content"]


class AppTool(_ServerTool):
    """A tool as the UI resources of its server call it: the result, as MCP has it, is the data of a part beside it."""

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    session: Any = Field(exclude=True, repr=False)
    own_name: str
    """The tool's name at its server."""
    is_for_models: bool
    """Whether models may call it too."""
    current_run: Any = Field(exclude=True, repr=False)
    """Returns the current run, whose keys the calls carry."""

    @classmethod
    def of(cls, session: ServerSession, tool: Tool, name: str, given: AgentTools) -> "AppTool":
        """`name` is the one by which models call it, if they may."""
        return cls(
            name=name,
            description=tool.description or "",
            args_schema=tool.inputSchema,
            metadata={TITLE: title_of(tool), **_guards_of(session, tool, name, given)},
            session=session,
            own_name=tool.name,
            is_for_models=is_for_models(tool),
            current_run=given.run,
        )

    async def _arun(self, arguments: dict[str, Any], call: _Call) -> tuple[str, dict[str, Any]]:
        _call.set(call)
        result = await self.session.call_tool(
            self.own_name, arguments, progress_callback=_untold, meta=_meta(self.current_run)
        )
        part = CustomPart(kind=APP_PART, data=whole_result(result), text=self.name)
        return self.name, {"parts": [part.model_dump(mode="json")]}


async def _untold(progress: float, total: float | None, message: str | None) -> None:
    """What is done with a report of progress for which nobody waits."""


class _Readable:
    """Unwraps the tool's arguments, and gives the adapter only content that a model can read."""

    def __init__(self, session: ServerSession, tool: Tool, given: AgentTools, *, model_sees_images: bool) -> None:
        self._session = session
        self._tool = tool
        self._run = given.run
        self._resources = given.resources
        self._origin = Origin(given.agent_id, session.server_id)
        self._model_sees_images = model_sees_images

    async def __call__(
        self, request: MCPToolCallRequest, handler: Callable[[MCPToolCallRequest], Awaitable[Any]]
    ) -> CallToolResult:
        arguments = request.args["arguments"]
        reading = self._reading()
        result: CallToolResult = await handler(request.override(args=arguments))
        made = readable(result, model_sees_images=self._model_sees_images)
        kept = await in_time(reading) if reading is not None and not result.isError else None
        shown = None if kept is None else part_of(self._origin, self._tool, kept, arguments, result, made.parts)
        # The adapter puts structured content into the tool message's artifact, where the chat finds its parts.
        beside = made.parts if shown is None else [shown, *(one for one in made.parts if not isinstance(one, CodePart))]
        parts = [part.model_dump(mode="json") for part in beside]
        return CallToolResult(
            content=made.blocks, structuredContent={"parts": parts} if parts else None, isError=result.isError
        )

    def _reading(self) -> "asyncio.Task[KeptResource | None] | None":
        """The reading of the tool's UI resource; None if it has none, or in a run of no session."""
        uri, keep = uri_of(self._tool), self._run().keep_ui_resource
        if uri is None or keep is None or not self._session.shows_apps:
            return None
        return self._resources.begin(self._session, uri, keep)


class _Session:
    """The adapter's replacement for a ClientSession."""

    def __init__(self, session: ServerSession, run: Callable[[], ToolRun]) -> None:
        self._session = session
        """Finds the live session."""
        self._run = run
        """Returns the current run."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, progress_callback: ProgressFnT
    ) -> CallToolResult:
        # The adapter has no place for `_meta`: https://github.com/langchain-ai/langchain-mcp-adapters/issues/410
        return await self._session.call_tool(
            name, arguments, progress_callback=progress_callback, meta=_meta(self._run)
        )


def _as_text(blocks: Sequence[Any]) -> list[dict[str, Any]] | str:
    """Texts as one text: not all providers accept a list (https://github.com/langchain-ai/langchain/issues/34669)."""
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return "\n".join(texts) if len(texts) == len(blocks) else list(blocks)


def _meta(run: Callable[[], ToolRun]) -> dict[str, Any] | None:
    """The `_meta` of a call's request; None if the call belongs to no run."""
    try:
        get_runtime()
    except (RuntimeError, KeyError):
        # An author calls the tool outside a graph.
        return None
    call_id = _call.get().id
    return {_IDEMPOTENCY_KEY: run().idempotency_key(call_id)} if call_id is not None else None


async def _tell_graph(progress: float, total: float | None, message: str | None, context: CallbackContext) -> None:
    """Write a report of progress to the graph's custom stream, with the call that it belongs to.

    The adapter's context does not name the call (https://github.com/langchain-ai/langchain-mcp-adapters/issues/291).
    """
    call = _call.get()
    told = {"tool": call.tool, "call_id": call.id, "progress": progress, "total": total}
    told["message"] = message and message[:_LONGEST_MESSAGE]
    # An author may call a tool outside a graph, where LangGraph has no stream writer and raises.
    with contextlib.suppress(RuntimeError, KeyError):
        get_stream_writer()({key: value for key, value in told.items() if value is not None})
