"""ToolGuard: what happens around every call of a tool by a graph's ToolNode, whoever has built the graph.

A call that the run's user has no permission for is refused with a failed result, before a person is asked to approve
of it; what a tool fails with loses its secrets before an author's wrappers see it, and what it returns passes the
modules before a model sees it. Invariant: each ToolNode of a served graph has the guard, which is set once, because
graphs are shared; who calls is known only at the call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar, cast

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.delegation import ASKS_AGENT
from agentic_backend.agents.permissions import Permissions
from agentic_backend.agents.run.at_work import agent_at_work
from agentic_backend.agents.runtime_context import RuntimeContext, find_context
from agentic_backend.agents.state.channel_forms import Graph
from agentic_backend.agents.state.clean_values import clean_value
from agentic_backend.agents.tools.result_marks import FORBIDDEN
from agentic_backend.agents.tools.result_texts import with_texts
from agentic_backend.agents.tools.shown_parts import WithheldText, look_at_parts, results_with_parts
from agentic_backend.agents.tools.tool_failures import hide_secrets, without_secrets
from agentic_backend.agents.tools.unfit_calls import NOT_RUN, is_unfit
from agentic_backend.disclosure.readable_errors import readable_errors
from agentic_backend.errors import Forbidden
from agentic_backend.mcp import policy_names
from agentic_backend.stores.protocol.trail import Allowance

_LONGEST_WAIT_S = 120.0
"""How long a thread waits for the modules, which have shorter timeouts."""

_telling: ContextVar[list[bool]] = ContextVar("telling")
"""Has an item if an exception within the call tells a secret still."""

Result = TypeVar("Result")


def guard_tools(graph: Graph) -> None:
    """Guard every ToolNode of `graph` and of its subgraphs."""
    _refuse_unfit_calls()
    for node in tool_nodes(graph):
        if not getattr(node, "is_guarded", False):
            # Not by `wrap_tool_call`: the wrappers of middleware, such as the one that asks a person, come after this.
            node._run_one = _guarded(node, node._run_one)  # type: ignore[method-assign]
            node._arun_one = _guarded_async(node, node._arun_one)  # type: ignore[method-assign, assignment]
            node._execute_tool_sync = _hiding(node._execute_tool_sync)  # type: ignore[method-assign]
            node._execute_tool_async = _hiding_async(node._execute_tool_async)  # type: ignore[method-assign, assignment]
            node.is_guarded = True  # type: ignore[attr-defined]


def _refuse_unfit_calls() -> None:
    """Have every ToolNode refuse a call that can't run, also one that only the code of a node knows."""
    run, run_async = ToolNode._run_one, ToolNode._arun_one
    if hasattr(run, "refuses_unfit"):
        return

    def refusing(node: ToolNode, call: ToolCall, *args: Any, **kwargs: Any) -> Any:
        return _not_run(call) if is_unfit(call["args"]) else run(node, call, *args, **kwargs)

    async def refusing_async(node: ToolNode, call: ToolCall, *args: Any, **kwargs: Any) -> Any:
        return _not_run(call) if is_unfit(call["args"]) else await run_async(node, call, *args, **kwargs)

    refusing.refuses_unfit = True  # type: ignore[attr-defined]
    ToolNode._run_one = refusing  # type: ignore[method-assign, assignment]
    ToolNode._arun_one = refusing_async  # type: ignore[method-assign, assignment]


def _not_run(call: ToolCall) -> ToolMessage:
    return ToolMessage(NOT_RUN, name=call["name"], tool_call_id=call["id"], status="error")


def withheld_tools(agents: Sequence[AgentFlow], permissions: Permissions) -> Mapping[str, frozenset[str]]:
    """The names of the tools that the user may not use, by agent id."""
    if permissions.granted is None:
        return {}
    return {one.settings.id: _withheld(one.get_compiled_graph(), one.settings.id, permissions) for one in agents}


def _withheld(graph: Graph, agent_id: str, permissions: Permissions) -> frozenset[str]:
    tools = {name: tool for node in tool_nodes(graph) for name, tool in node.tools_by_name.items()}
    return frozenset(name for name, tool in tools.items() if permissions.lacking(agent_id, name, tool.metadata))


def tools_meant(agents: Sequence[AgentFlow], names: Collection[str]) -> dict[str, list[list[Any]]]:
    """The tools that calls by these names mean, by name, without names that no ToolNode of the agents knows.

    Each tool is its agent's id and code, where the tool comes from, and whether a person has to approve of it. A run
    that goes on with an agent that was built anew may find another tool under the name that a person has decided on.
    """
    meant: dict[str, list[list[Any]]] = {}
    for agent in agents if names else ():
        settings = agent.settings
        for node in tool_nodes(agent.get_compiled_graph()):
            for name in node.tools_by_name.keys() & names:
                metadata = node.tools_by_name[name].metadata
                origin = policy_names(name, metadata)[0]
                tool = [settings.id, settings.class_path or "", origin, settings.requires_approval_of(name, metadata)]
                meant.setdefault(name, []).append(tool)
    return meant


def allowance_of(name: str, metadata: Mapping[str, Any] | None) -> Allowance | None:
    """Why a tool that starts may run; None outside of an exchange.

    Raises Forbidden if the run's user may not use it: a node may call a tool without a ToolNode.
    """
    context = find_context()
    if context is None:
        return None
    if lacking := _lacking(context, name, metadata):
        raise Forbidden(_refusal(name, lacking))
    agent_id = agent_at_work() or context.agent_id
    entry = context.entries.get(agent_id)
    if entry is None:
        return None
    return Allowance(
        agent_id=agent_id,
        requires_approval=entry.requires_approval_of(name, metadata),
        needs=context.permissions.needed(agent_id, name, metadata),
        everybody_may=context.permissions.granted is None,
        asks_agent=(metadata or {}).get(ASKS_AGENT),
    )


def tool_nodes(graph: Graph) -> Iterator[ToolNode]:
    """The ToolNodes of `graph` and of its subgraphs."""
    yield from (node.bound for node in graph.nodes.values() if isinstance(node.bound, ToolNode))
    for _, inner in graph.get_subgraphs():
        yield from tool_nodes(cast(Graph, inner))


def _guarded(node: ToolNode, run: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(call: ToolCall, *args: Any, **kwargs: Any) -> Any:
        context = find_context()
        refused = _refused(context, call, node.tools_by_name)
        if refused is not None:
            return refused
        with _told() as telling:
            result = clean_value(run(call, *args, **kwargs))
        result = without_secrets(result, _secrets_of(context), may_tell=bool(telling))
        if context is None or context.filter_tool_result is None or context.loop is None:
            return result
        filtering = asyncio.run_coroutine_threadsafe(_filtered(context, node, call["name"], result), context.loop)
        return filtering.result(_LONGEST_WAIT_S)

    return guarded


def _guarded_async(node: ToolNode, run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def guarded(call: ToolCall, *args: Any, **kwargs: Any) -> Any:
        context = find_context()
        refused = _refused(context, call, node.tools_by_name)
        if refused is not None:
            return refused
        with _told() as telling:
            result = clean_value(await run(call, *args, **kwargs))
        result = without_secrets(result, _secrets_of(context), may_tell=bool(telling))
        if context is None or context.filter_tool_result is None:
            return result
        if context.loop is asyncio.get_running_loop() or context.loop is None:
            return await _filtered(context, node, call["name"], result)
        # An author's own event loop, in a thread.
        filtering = asyncio.run_coroutine_threadsafe(_filtered(context, node, call["name"], result), context.loop)
        async with asyncio.timeout(_LONGEST_WAIT_S):
            return await asyncio.wrap_future(filtering)

    return guarded


def _hiding(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`execute`, which wrappers of an author's call, so that they see no secret in what a tool fails with."""

    def hiding(*args: Any, **kwargs: Any) -> Any:
        with _hidden_secrets() as secrets:
            return without_secrets(execute(*args, **kwargs), secrets)

    return hiding


def _hiding_async(execute: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def hiding(*args: Any, **kwargs: Any) -> Any:
        with _hidden_secrets() as secrets:
            return without_secrets(await execute(*args, **kwargs), secrets)

    return hiding


@contextmanager
def _told() -> Iterator[list[bool]]:
    """What a call within finds out for `_telling`."""
    telling: list[bool] = []
    token = _telling.set(telling)
    try:
        yield telling
    finally:
        _telling.reset(token)


@contextmanager
def _hidden_secrets() -> Iterator[Callable[[], Sequence[str]]]:
    """Take the secrets of the run out of what is raised within; gives what they are."""
    secrets = _secrets_of(find_context())
    try:
        with readable_errors():
            yield secrets
    except GraphBubbleUp:
        # No failure: what an interrupt asks, or a command of a graph within.
        raise
    except Exception as error:
        if not hide_secrets(error, secrets()):
            _telling.get([]).append(True)
        raise


def _refused(context: RuntimeContext | None, call: ToolCall, tools: Mapping[str, BaseTool]) -> ToolMessage | None:
    """The failed result of a call that can't run, or that the user may not make."""
    name = call["name"]
    if is_unfit(call["args"]):
        return _not_run(call)
    tool = tools.get(name)
    lacking = _lacking(context, name, tool.metadata if tool is not None else None)
    if not lacking:
        return None
    return ToolMessage(
        _refusal(name, lacking),
        name=name,
        tool_call_id=call["id"],
        status="error",
        additional_kwargs={FORBIDDEN: lacking},
    )


def _lacking(context: RuntimeContext | None, name: str, metadata: Mapping[str, Any] | None) -> list[str]:
    if context is None or context.permissions.granted is None:
        return []
    return context.permissions.lacking(agent_at_work() or context.agent_id, name, metadata)


def _refusal(name: str, lacking: Collection[str]) -> str:
    return f"The user may not use the tool '{name}': it needs the permission {', '.join(lacking)}."


async def _filtered(context: RuntimeContext, node: ToolNode, name: str, result: Any) -> Any:
    """`result` with its texts as the modules leave them, and what is shown beside it."""
    assert context.filter_tool_result is not None
    tool = node.tools_by_name.get(name)
    look = partial(context.filter_tool_result, name, policy_names(name, tool.metadata if tool is not None else None))
    filtered: dict[str, str] = {}
    with_texts(result, lambda _, text: filtered.setdefault(text, text))
    for text in filtered:
        filtered[text] = await look(text)
    is_blocked = any(isinstance(text, WithheldText) for text in filtered.values())
    for message in results_with_parts(result):
        await look_at_parts(message, look, is_blocked=is_blocked)
    return with_texts(result, lambda _, text: filtered[text])


def _secrets_of(context: RuntimeContext | None) -> Callable[[], Sequence[str]]:
    return context.known_secrets if context is not None else tuple
