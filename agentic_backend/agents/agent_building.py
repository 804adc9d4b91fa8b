"""Builds an agent from its catalog entry, and a leader from its own entry and those of its crew."""

import inspect
from collections.abc import Container, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from typing import Any, cast

from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from agentic_backend.agents.agent_flow import (
    AgentFlow,
    AgentServices,
    CompiledGraph,
    GraphFlow,
    bound_tools,
    graph_store,
    is_flow_class,
)
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.code.authors_thread import in_thread
from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.code.factory_arguments import Offer, bound, wanted_by
from agentic_backend.agents.code.graph_context import wrong_fields
from agentic_backend.agents.code.managed_graph import ManagedGraph
from agentic_backend.agents.code.required_graph import require_graph
from agentic_backend.agents.code.workflow_graph import graph_of, is_workflow, takes_messages
from agentic_backend.agents.leader_flow import LeaderFlow
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.tools.tool_approval import require_gates
from agentic_backend.agents.tools.tool_guard import guard_tools
from agentic_backend.errors import AgentUnavailable


async def build(entry: CatalogAgent, services: AgentServices, context: RuntimeContext, built: list[AgentFlow]) -> None:
    """Instantiate and initialise the agent of `entry`; a leader's crew first, one by one.

    Adds each agent to `built` before initialising it, in the order for closing: the leader first.
    Raises AgentUnavailable if a graph can't be served, and any exception of an author's code.
    """
    crew: dict[str, AgentFlow] = {}
    for member in entry.crew:
        expert = await _instantiate(member, services, context)
        built.append(expert)
        await expert.async_init()
        _require_servable(expert)
        require_gates(member.settings, expert.get_compiled_graph(), for_apps=_for_apps(expert))
        guard_tools(expert.get_compiled_graph())
        crew[member.settings.id] = expert
    agent = await _instantiate(entry, services, context)
    built.insert(0, agent)
    if isinstance(agent, LeaderFlow):
        await agent.async_init(crew)
    else:
        await agent.async_init()
    _require_servable(agent)
    others = [expert.get_compiled_graph() for expert in crew.values()]
    require_gates(entry.settings, agent.get_compiled_graph(), others, _for_apps(agent))
    guard_tools(agent.get_compiled_graph())


def _for_apps(agent: AgentFlow) -> Sequence[BaseTool]:
    """The tools that UI resources of the agent's MCP servers alone may call."""
    return agent.mcp.app_tools() if agent.mcp is not None else ()


async def _instantiate(entry: CatalogAgent, services: AgentServices, context: RuntimeContext) -> AgentFlow:
    target = entry.target
    if is_flow_class(target):
        return target(entry.settings, services, context)
    if isinstance(target, Pregel):
        return GraphFlow(entry.settings, services, context, _graph_of(target, entry, target))
    factory = cast(Any, target)
    made = await _call(factory, entry, services, context)
    asks = any(wanted.kind == "model" for wanted in wanted_by(factory))
    model = services.models.get(entry.settings.model) if asks else None
    if not isinstance(made, AbstractAsyncContextManager | AbstractContextManager):
        return GraphFlow(entry.settings, services, context, _graph_of(made, entry, factory), model=model)
    managed = ManagedGraph(made, entry.settings.id)
    graph = await managed.enter()
    try:
        return GraphFlow(entry.settings, services, context, _graph_of(graph, entry, factory), managed, model)
    except BaseException:
        await managed.aclose()
        raise


async def _call(factory: Any, entry: CatalogAgent, services: AgentServices, context: RuntimeContext) -> object:
    """Call an author's function with what its parameters ask for."""
    offer = Offer(
        model=lambda: services.models.get(entry.settings.model),
        fields=entry.settings.tuning.fields,
        context=replace(context, agent_id=entry.settings.id),
        store=graph_store(entry.settings, services, context),
        tools=bound_tools(entry.settings, services),
    )
    try:
        call = bound(factory, offer)
    except ClassPathError as error:
        # A reason may be the text of an author's own check.
        raise AgentUnavailable(f"The agent '{entry.settings.id}' could not be started.") from error
    if inspect.iscoroutinefunction(factory):
        return await call()
    # A plain function may read files or import a provider: off the event loop.
    made = await in_thread(call)
    return await made if inspect.isawaitable(made) else made


def _graph_of(made: object, entry: CatalogAgent, maker: object) -> CompiledGraph:
    """The graph that the target of a class path is, or that `maker`, an author's function, has made."""
    if isinstance(made, StateGraph):
        made = made.compile()
    graph = require_graph(made, entry.settings.id, maker)
    if not is_workflow(graph):
        return graph
    if not takes_messages(graph):
        raise AgentUnavailable(
            f"The workflow of the agent '{entry.settings.id}' takes no messages; it needs a list of messages, or a "
            "mapping with 'messages'."
        )
    return graph_of(graph)


def _require_servable(agent: AgentFlow) -> None:
    graph = agent.get_compiled_graph()
    require_graph(graph, agent.settings.id, agent.get_compiled_graph)
    if "messages" not in graph.channels:
        raise AgentUnavailable(
            f"The graph of the agent '{agent.settings.id}' has no 'messages' channel in its state; it needs one."
        )
    if "messages" not in _input_channels(graph):
        raise AgentUnavailable(
            f"The graph of the agent '{agent.settings.id}' has no 'messages' in its input schema; it needs them there."
        )
    for name, reason in wrong_fields(graph.context_schema, agent.tuning.fields):
        raise AgentUnavailable(
            f"The agent '{agent.settings.id}' has a wrong tuning field '{name}'."
        ) from ClassPathError(reason)


def _input_channels(graph: CompiledGraph) -> Container[str]:
    """The input channels of a graph. The `input_channels` of a state graph hold only its start channel."""
    if isinstance(graph, CompiledStateGraph):
        return graph.builder.schemas[graph.builder.input_schema]
    return [graph.input_channels] if isinstance(graph.input_channels, str) else graph.input_channels
