"""ToolApproval: the middleware that asks a person before a tool runs, if the agent's entry requires approval of it.

It decides at each call, by all names that policy may mean the tool by, so it also covers tools of MCP servers, whatever
their neighbours offer, and of other middleware. Invariant: if an entry requires approval, every graph of its agent that
runs tools has this middleware; otherwise the agent is not served (see `require_gates`).
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig, ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.json_schema import dereference_refs
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.state.channel_forms import Graph
from agentic_backend.config.topics.permissions import means
from agentic_backend.config.yaml.validation_problems import near_miss
from agentic_backend.errors import AgentUnavailable
from agentic_backend.exact_json import INEXACT, all_exact
from agentic_backend.mcp import NUMBERED, POLICY_NAMES, numbered_names, policy_names

Result = ToolMessage | Command[Any]


class ToolApproval(HumanInTheLoopMiddleware[Any, Any, Any]):
    """LangChain's approval middleware for the tools that `settings` name, with one interrupt per call."""

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__({}, interrupt_mode="per_call")
        self._settings = settings

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        if not self._asks(request):
            return handler(request)
        if not all_exact(request.tool_call["args"]):
            return _refused(request)
        return super().wrap_tool_call(_shown(request), lambda decided: handler(replace(decided, tool=request.tool)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        if not self._asks(request):
            return await handler(request)
        if not all_exact(request.tool_call["args"]):
            return _refused(request)
        return await super().awrap_tool_call(
            _shown(request), lambda decided: handler(replace(decided, tool=request.tool))
        )

    def _asks(self, request: ToolCallRequest) -> bool:
        name = request.tool_call["name"]
        if not self._settings.requires_approval_of(name, request.tool.metadata if request.tool is not None else None):
            return False
        self.interrupt_on[name] = InterruptOnConfig(allowed_decisions=["approve", "edit", "reject"], description="")
        return True


def require_gates(
    settings: AgentSettings, graph: Graph, crew: Sequence[Graph] = (), for_apps: Sequence[BaseTool] = ()
) -> None:
    """Raise AgentUnavailable if `graph` would run tools without a required approval, or lacks a tool that is named, or
    if it can't be decided which tool is meant.

    Skips the graphs of its `crew`: their own entries decide about them. `for_apps` are further tools, which
    no graph runs.
    """
    if not settings.require_approval and not settings.permissions:
        return
    levels = list(_levels(graph, crew))
    tools = [*(tool for level in levels for tool in _tools(level)), *for_apps]
    _require_decidable(settings, tools)
    if not settings.require_approval:
        return
    ungated = [level for level in levels if tools_of(level) and _GATE not in level.nodes]
    if ungated or not any(_GATE in level.nodes for level in levels):
        raise AgentUnavailable(
            f"The agent '{settings.id}' requires approval of tools, but its graph does not ask for it: "
            "create_agent() needs approval_middleware() in its middleware."
        )
    known = {name for tool in tools for name in policy_names(tool.name, tool.metadata)}
    for name in settings.approved_names:
        if name not in known or not _is_from_there(settings, name, tools):
            raise AgentUnavailable(
                f"The agent '{settings.id}' requires approval of the tool '{name}', which it does not have"
                f"{near_miss(name, known - {name}) or '.'}"
            )


def _is_from_there(settings: AgentSettings, name: str, tools: Sequence[BaseTool]) -> bool:
    """Whether the server or API of an `id/name` has it, if the entry uses one of that id; others may offer it too."""
    id, slash, _ = name.partition("/")
    uses = [*(use.id for use in settings.tuning.mcp_servers), *(use.id for use in settings.apis)]
    if not slash or id not in uses:
        return True
    meant = ((tool.metadata or {}).get(POLICY_NAMES, ()) for tool in tools)
    return any(name in names and names[0].startswith(f"{id}/") for names in meant)


def _require_decidable(settings: AgentSettings, tools: Sequence[BaseTool]) -> None:
    """Raise AgentUnavailable if policy means a tool by its number alone, which may be another tool's tomorrow."""
    for tool in tools:
        if NUMBERED not in (tool.metadata or {}):
            continue
        names = policy_names(tool.name, tool.metadata)
        for pattern in (*settings.require_approval, *settings.permissions):
            if not means(pattern, names) and means(pattern, numbered_names(names[-1])):
                raise AgentUnavailable(
                    f"The agent '{settings.id}' names the tool '{tool.name}' by '{pattern}', but its number comes and "
                    f"goes with other tools: name it '{names[0]}'."
                )


def tools_of(graph: Graph) -> list[str]:
    """The names of the tools that the nodes of `graph` run, without its subgraphs."""
    return [tool.name for tool in _tools(graph)]


def _tools(graph: Graph) -> list[BaseTool]:
    nodes = [node.bound for node in graph.nodes.values()]
    return [tool for node in nodes if isinstance(node, ToolNode) for tool in node.tools_by_name.values()]


_GATE = f"{ToolApproval.__name__}.after_model"
"""The name of the node that create_agent adds for the middleware; a graph with this node has it."""


def _levels(graph: Graph, crew: Sequence[Graph]) -> Iterator[Graph]:
    """`graph` and all its subgraphs at any depth."""
    if any(graph is expert for expert in crew):
        return
    yield graph
    for _, inner in graph.get_subgraphs():
        yield from _levels(cast(Graph, inner), crew)


def _shown(request: ToolCallRequest) -> ToolCallRequest:
    """`request` with a tool whose arguments have a JSON Schema without references.

    The middleware can't handle references. It also must not validate an edit with the tool's own type: a failed
    validation there would end the exchange, but if the tool refuses the edit, the model gets the error.
    """
    if request.tool is None:
        return request
    # If there is no such schema, only the tool checks the arguments.
    described: dict[str, Any] = {"type": "object"}
    with contextlib.suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError, PydanticUserError):
        schema = request.tool.tool_call_schema
        inlined = dereference_refs(schema if isinstance(schema, dict) else TypeAdapter[Any](schema).json_schema())
        inlined = {key: value for key, value in inlined.items() if key not in ("$defs", "definitions")}
        described = described if _has_references(inlined) else inlined
    return replace(request, tool=request.tool.model_copy(update={"args_schema": described}))


def _refused(request: ToolCallRequest) -> ToolMessage:
    """What the model gets for a call whose arguments nobody can be shown as they are."""
    call = request.tool_call
    content = (
        f"{call['name']} has not run: its arguments have {INEXACT}, so that nobody can be asked about them. "
        "Send the number as a text, or another one."
    )
    return ToolMessage(content, name=call["name"], tool_call_id=call["id"], status="error")


def _has_references(schema: Any) -> bool:
    if isinstance(schema, dict):
        return isinstance(schema.get("$ref"), str) or any(map(_has_references, schema.values()))
    return isinstance(schema, list) and any(map(_has_references, schema))
