"""Leaves out the tools that the run's user may not use from what models are offered.

Each model that the server builds does so, whichever graph calls it (see prepared_calls). A graph that brings a model of
its own uses the middleware; without it, such a model may be offered the tool, and its call is refused (see tool_guard).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

from agentic_backend.agents.run.at_work import agent_at_work
from agentic_backend.agents.runtime_context import find_context

Request = ModelRequest[Any]
Response = ModelResponse[Any]

_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
"""The options that providers refuse in a request without tools."""
_OF_GOOGLE = "function_declarations"


class AllowedTools(AgentMiddleware[Any, Any, Any]):
    """Leaves out the tools that the run's user may not use, for a graph with a model that the server has not built."""

    def wrap_model_call(self, request: Request, handler: Callable[[Request], Response]) -> Response:
        return handler(_allowed_request(request))

    async def awrap_model_call(self, request: Request, handler: Callable[[Request], Awaitable[Response]]) -> Response:
        return await handler(_allowed_request(request))


def _allowed_request(request: Request) -> Request:
    withheld = _withheld()
    if not withheld:
        return request
    return request.override(tools=[tool for tool in request.tools if _name_of(tool) not in withheld])


def allowed(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a model's call without the tools that are withheld, and without a choice of one of these."""
    withheld, tools = _withheld(), options.get("tools")
    if not withheld or not isinstance(tools, Sequence):
        return options
    kept = [left for tool in tools if (left := _without(tool, withheld)) is not None]
    if not kept:
        return {name: value for name, value in options.items() if name not in _OF_TOOLS}
    rest = dict(options)
    if _names_in(rest.get("tool_choice")) & withheld:
        del rest["tool_choice"]
    return rest | {"tools": kept}


def _withheld() -> frozenset[str]:
    context = find_context()
    if context is None or not context.withheld_tools:
        return frozenset()
    return context.withheld_tools.get(agent_at_work() or context.agent_id, frozenset())


def _without(tool: Any, withheld: Collection[str]) -> Any:
    """A tool in any provider's form, without what is withheld; None if nothing is left."""
    declarations = tool.get(_OF_GOOGLE) if isinstance(tool, Mapping) else None
    if isinstance(declarations, Sequence):
        # Google's form: all functions are one tool.
        kept = [one for one in declarations if _name_of(one) not in withheld]
        return {**tool, _OF_GOOGLE: kept} if kept else None
    return None if _name_of(tool) in withheld else tool


def _name_of(tool: Any) -> str | None:
    if not isinstance(tool, Mapping):
        return getattr(tool, "name", None)
    inner = next((tool[key] for key in ("function", "toolSpec") if isinstance(tool.get(key), Mapping)), tool)
    name = inner.get("name")
    return name if isinstance(name, str) else None


def _names_in(choice: Any) -> set[str]:
    """The texts in a choice of tools, whatever the provider's form of it: a name is one of them."""
    if isinstance(choice, str):
        return {choice}
    if isinstance(choice, Mapping):
        return set().union(*map(_names_in, choice.values())) if choice else set()
    return set()
