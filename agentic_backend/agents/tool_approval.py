"""ToolApproval: the middleware that asks a person before a tool runs for which its agent's entry requires approval.

It decides by the name that is called, when it is called: tools of MCP servers and those that other middleware brings
are asked about like all others. Invariant: the compiled graphs of an agent whose entry requires approval have it
wherever they run tools, or the agent is not served (see `require_gates`).
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig, ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.utils.json_schema import dereference_refs
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.types import Command
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from agentic_backend.agents.catalog import AgentSettings
from agentic_backend.errors import AgentUnavailable
from agentic_backend.validation_problems import near_miss

Graph = Pregel[Any, Any, Any, Any]
Result = ToolMessage | Command[Any]


class ToolApproval(HumanInTheLoopMiddleware[Any, Any, Any]):
    """LangChain's approvals, one interrupt for each call, for the tools that `settings` name."""

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__({}, interrupt_mode="per_call")
        self._settings = settings

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        if not self._asks(request):
            return handler(request)
        return super().wrap_tool_call(_shown(request), lambda decided: handler(replace(decided, tool=request.tool)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        if not self._asks(request):
            return await handler(request)
        return await super().awrap_tool_call(
            _shown(request), lambda decided: handler(replace(decided, tool=request.tool))
        )

    def _asks(self, request: ToolCallRequest) -> bool:
        name = request.tool_call["name"]
        if not self._settings.requires_approval_of(name):
            return False
        self.interrupt_on[name] = InterruptOnConfig(allowed_decisions=["approve", "edit", "reject"], description="")
        return True


def require_gates(settings: AgentSettings, graph: Graph, crew: Sequence[Graph] = ()) -> None:
    """Raise AgentUnavailable where tools of `graph` would run unasked that must not, or don't exist.

    The graphs of its `crew` are their own entries' affair.
    """
    if not settings.require_approval:
        return
    levels = list(_levels(graph, crew))
    known = [name for level in levels for name in tools_of(level)]
    ungated = [level for level in levels if tools_of(level) and _GATE not in level.nodes]
    if ungated or not any(_GATE in level.nodes for level in levels):
        raise AgentUnavailable(
            f"The agent '{settings.id}' requires approval of tools, but its graph does not ask for it: "
            "create_agent() needs approval_middleware() in its middleware."
        )
    for name in settings.approved_names:
        if name not in known:
            raise AgentUnavailable(
                f"The agent '{settings.id}' requires approval of the tool '{name}', which it does not have"
                f"{near_miss(name, known) or '.'}"
            )


def tools_of(graph: Graph) -> list[str]:
    """The names of the tools that the nodes of `graph` itself run."""
    nodes = [node.bound for node in graph.nodes.values()]
    return [name for node in nodes if isinstance(node, ToolNode) for name in node.tools_by_name]


_GATE = f"{ToolApproval.__name__}.after_model"
"""The node that create_agent makes of the middleware, by which a graph is seen to have it."""


def _levels(graph: Graph, crew: Sequence[Graph]) -> Iterator[Graph]:
    """`graph` and the graphs that are its nodes, however deep."""
    if any(graph is expert for expert in crew):
        return
    yield graph
    for _, inner in graph.get_subgraphs():
        yield from _levels(cast(Graph, inner), crew)


def _shown(request: ToolCallRequest) -> ToolCallRequest:
    """`request` with a tool whose arguments are described by a JSON Schema without references.

    The middleware can't take over references. Nor is it to check an edit by the tool's own type when the graph goes on:
    one that a validator of the type refuses would end the exchange, while a tool that refuses it tells the model.
    """
    if request.tool is None:
        return request
    # What can't be described so is checked by the tool alone.
    described: dict[str, Any] = {"type": "object"}
    with contextlib.suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError, PydanticUserError):
        schema = request.tool.tool_call_schema
        inlined = dereference_refs(schema if isinstance(schema, dict) else TypeAdapter[Any](schema).json_schema())
        inlined = {key: value for key, value in inlined.items() if key not in ("$defs", "definitions")}
        described = described if _has_references(inlined) else inlined
    return replace(request, tool=request.tool.model_copy(update={"args_schema": described}))


def _has_references(schema: Any) -> bool:
    if isinstance(schema, dict):
        return isinstance(schema.get("$ref"), str) or any(map(_has_references, schema.values()))
    return isinstance(schema, list) and any(map(_has_references, schema))
