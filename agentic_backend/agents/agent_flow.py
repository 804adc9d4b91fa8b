"""AgentFlow: the base class of an agent.

The AgentFactory builds one instance per (session, agent), sets its runtime context, and awaits `async_init()` once.
The instance then serves exchanges one by one until `aclose()`. An author overrides `async_init` and
`get_compiled_graph`; a compiled graph needs no class (see GraphFlow).
"""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, cast

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.runtime import RunControl
from langgraph.store.base import BaseStore
from langgraph.types import Command
from pydantic import BaseModel

from agentic_backend.agents.catalog.catalog import AgentSettings, AgentTuning
from agentic_backend.agents.catalog.entry_parts import is_code_name
from agentic_backend.agents.code.authors_tools import authors_tool
from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.code.graph_config import configurable
from agentic_backend.agents.code.graph_context import graph_context
from agentic_backend.agents.code.managed_graph import ManagedGraph
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.run.call_limits import bound_steps
from agentic_backend.agents.run.run_prompt import RunPrompt
from agentic_backend.agents.run.separate_questions import keep_questions_apart
from agentic_backend.agents.runtime_context import RuntimeContext, make_current
from agentic_backend.agents.state.channel_forms import Graph
from agentic_backend.agents.state.clean_values import clean_writes
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.state.graph_store import GraphStore
from agentic_backend.agents.state.kept_state import adds_messages, kept_channels, private_channels
from agentic_backend.agents.state.state_types import types_of
from agentic_backend.agents.tools.tool_approval import ToolApproval
from agentic_backend.apis.api_documents import ApiDocuments
from agentic_backend.auth.user import Tokens
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp.shared_sessions import SharedSessions
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.items import SHARED, ItemBounds

if TYPE_CHECKING:
    # MCP is imported by the agents that use it: it takes a quarter of a second.
    from agentic_backend.mcp.mcp_runtime import MCPRuntime

StreamPart = tuple[tuple[str, ...], str, Any]
"""One item of a LangGraph stream: its subgraph's namespace, its mode, its payload."""

CompiledGraph = Graph


@dataclass(frozen=True, slots=True)
class AgentServices:
    """The services that the server gives to agents."""

    models: ChatModels
    """The chat models of the settings and the catalog."""
    exchange_token: Callable[[str, str], Awaitable[Tokens]]
    """Trades a user's access token for one for an audience."""
    mcp_servers: Mapping[str, McpServerSettings] = field(default_factory=dict)
    """The MCP servers of the settings, by id."""
    shared_mcp_sessions: SharedSessions = field(default_factory=SharedSessions)
    """The MCP sessions that agents share."""
    store: Store | None = None
    """Where graphs keep items; None leaves them without a store of the server's."""
    item_bounds: ItemBounds = field(default_factory=ItemBounds)
    """The most that each owner may keep there."""
    standard_tools: Mapping[str, BaseTool] = field(default_factory=dict)
    """The standard tools, by name."""
    # The HTTP APIs of the settings, by id, and what describes them.
    apis: Mapping[str, ApiSettings] = field(default_factory=dict)
    api_documents: ApiDocuments = field(default_factory=ApiDocuments)
    middleware: Mapping[str, Sequence[AgentMiddleware[Any, Any, Any]]] = field(default_factory=dict)
    """That of applications, by their ids."""
    state_types: Sequence[str] = ()
    """Further types that the stored state of a graph may hold: classes, or modules with all their classes."""
    mcp_server_up: Callable[[str, bool], None] = lambda server_id, up: None
    """Called with a server's id when an MCP session opens (True) or fails (False)."""


class AgentFlow:
    """One instance per session and agent, or per query. The AgentFactory owns it."""

    tool_names: ClassVar[Sequence[str]] = ()
    """The tools that the list of agents shows for this one."""
    Fields: ClassVar[type[BaseModel] | None] = None
    """The pydantic model of `tuning.fields`, if the class declares one: entries are checked against it at the start."""
    is_configured: ClassVar[bool] = False
    """Whether the entry's `prompt`, `apis`, `middleware` and `output` make the agent."""
    # Whether the graph takes the run's system prompt with `prompt_middleware`.
    takes_run_prompt: bool = False

    def __init__(self, settings: AgentSettings, services: AgentServices, context: RuntimeContext) -> None:
        self.settings = settings
        """The agent's catalog entry."""
        self.runtime_context = context
        """The context of the current exchange: the factory sets it before each."""
        self.services = services
        self.mcp: MCPRuntime | None = None
        """Set by `async_init` if the agent uses MCP servers; closed by `aclose`."""
        self._asked_for: BaseChatModel | None = None
        """The model that the agent has asked for."""

    @property
    def tuning(self) -> AgentTuning:
        return self.settings.tuning

    @cached_property
    def fields(self) -> Any:
        """The tuning fields of the catalog entry as an instance of the class's `Fields`."""
        assert self.Fields is not None, f"{type(self).__name__} declares no Fields"
        return self.Fields.model_validate(self.tuning.fields)

    def tuned(self, field: str, default: str) -> str:
        """The text of a tuning field of the catalog entry, or `default`."""
        return str(self.tuning.fields.get(field, default))

    def chat_model(self) -> BaseChatModel:
        """The chat model that the catalog entry names, or the server's default one."""
        self._asked_for = self.services.models.get(self.settings.model)
        return self._asked_for

    @property
    def answering_model(self) -> BaseChatModel | None:
        """The chat model that the agent answers with, as far as the server knows; None if it has a model of its own.

        It is the one that the agent has asked for, or that its catalog entry names.
        """
        named = self.settings.model
        return self.services.models.get(named) if self._asked_for is None and named is not None else self._asked_for

    def standard_tools(self) -> list[BaseTool]:
        """The tools that `tools` of the catalog entry names: standard ones, and those of authors by `module:name`."""
        return bound_tools(self.settings, self.services)

    def approval_middleware(self) -> list[AgentMiddleware[Any, Any, Any]]:
        """The middleware that asks a person before a tool runs that `require_approval` of the catalog entry names.

        Put it first in create_agent(middleware=[…]). An entry that requires approval is not served without it.
        """
        return [ToolApproval(self.settings)] if self.settings.require_approval else []

    def system_prompt(self) -> str | None:
        """The agent's own part of the system prompt, read at the start of each run.

        `prompt_middleware()` passes it to the model, with what else belongs into the prompt. None if the graph has its
        own prompt, or none: what else there is then stands in front of its messages, as a system message.
        """
        return None

    def prompt_middleware(self) -> AgentMiddleware[Any, Any, Any]:
        """The middleware that passes each run's system prompt, which includes `system_prompt()`, to the model.

        Put it after `approval_middleware()` in create_agent(middleware=[…]), instead of `system_prompt=`.
        """
        self.takes_run_prompt = True
        return RunPrompt(self.settings.id, self.system_prompt)

    def application_middleware(self) -> list[AgentMiddleware[Any, Any, Any]]:
        """The middleware of the applications that the catalog entry speaks to in its `tuning`.

        Put it after `prompt_middleware()` in create_agent(middleware=[…]).
        """
        named = self.tuning.of_applications
        return [each for key in named for each in self.services.middleware.get(key, ())]

    async def async_init(self) -> None:
        """Open the agent's resources and build its graph. Runs once, before the first exchange."""

    def get_compiled_graph(self) -> CompiledGraph:
        """The graph that answers. Its state has a `messages` channel."""
        raise AgentUnavailable(f"The agent '{self.settings.id}' has no graph: get_compiled_graph() is not implemented.")

    def astream_updates(
        self,
        given: Mapping[str, Any] | Command[Any] | None,
        config: RunnableConfig,
        checkpoints: ExchangeCheckpoints | None = None,
        control: RunControl | None = None,
    ) -> AsyncIterator[StreamPart]:
        """Run the graph; yield node updates and custom events, also of subgraphs. Tokens come by callback.

        `given` is the initial state of a run, a command that resumes a paused run, or None to continue from the
        checkpoints. The run adds a checkpoint at each step. `control` can stop it between two steps; it then raises
        GraphDrained.
        """
        # A copy, because all sessions share the graph. Setting `checkpointer` replaces one of the author's, which would
        # keep every exchange forever.
        graph = copy.copy(self.get_compiled_graph())
        graph.checkpointer = checkpoints
        graph.store = self.graph_store()
        make_current(self.runtime_context)
        keep_questions_apart()
        clean_writes()
        bound_steps()
        stream = graph.astream(
            dict(given) if isinstance(given, Mapping) else given,
            config,
            context=self.graph_context(),
            stream_mode=["updates", "custom"],
            subgraphs=True,
            durability="async" if checkpoints is not None else None,
            control=control,
        )
        return cast(AsyncIterator[StreamPart], stream)

    def graph_context(self) -> Any:
        """LangGraph's context for the current exchange. Raises BadFrame and AgentUnavailable, which name the field."""
        return graph_context(self.get_compiled_graph().context_schema, self.tuning.fields, self._own_context)

    def configurable(self) -> dict[str, Any]:
        """LangGraph's `configurable` for the current exchange."""
        return configurable(self.tuning.fields, self._own_context)

    @property
    def _own_context(self) -> RuntimeContext:
        context = self.runtime_context
        # An expert has the context of its leader's exchange.
        return context if context.agent_id == self.settings.id else replace(context, agent_id=self.settings.id)

    def graph_store(self) -> BaseStore | None:
        """LangGraph's store for the current exchange: the one that the graph was compiled with, or the server's."""
        own = self.get_compiled_graph().store
        return own if own is not None else graph_store(self.settings, self.services, self.runtime_context)

    @cached_property
    def kept_channels(self) -> frozenset[str]:
        """The channels except `messages` whose values the next exchange starts from."""
        return kept_channels(self.get_compiled_graph())

    @cached_property
    def private_channels(self) -> frozenset[str]:
        """The channels whose values the next exchange starts from if it starts from the same messages."""
        return private_channels(self.get_compiled_graph())

    @cached_property
    def state_types(self) -> frozenset[type]:
        """The classes that the graph's state names: what is stored of them is built again."""
        return types_of(self.get_compiled_graph())

    @cached_property
    def adds_messages(self) -> bool:
        """Whether the graph adds the messages of a run's input to those that it has."""
        return adds_messages(self.get_compiled_graph())

    async def refresh_user_access_token(self) -> str:
        """Trade the user's refresh token for a new access token, for all that runs for the user; return it.

        Calls at the same time share one trade. Raises Unauthenticated if the user gave no refresh token, or if it is no
        longer valid, and AuthUnavailable if the identity provider can't be reached.
        """
        return await self.runtime_context.tokens.renewed()

    @property
    def has_ended(self) -> bool:
        """Whether what the agent needs has ended on its own, so that it must be built anew."""
        return False

    async def aclose(self) -> None:
        """Close the resources of `async_init`. Awaited once: when the agent is evicted, its session is deleted, or the
        server stops.

        An override must await `super().aclose()` too.
        """
        if self.mcp is not None:
            await self.mcp.aclose()


def bound_tools(settings: AgentSettings, services: AgentServices) -> list[BaseTool]:
    """The tools that a catalog entry names. Raises AgentUnavailable if one of them is not there."""
    names = settings.tools
    missing = [name for name in names if not is_code_name(name) and name not in services.standard_tools]
    if missing:
        raise AgentUnavailable(f"The agent '{settings.id}' names tools that are not there: {', '.join(missing)}.")
    try:
        return [authors_tool(name) if is_code_name(name) else services.standard_tools[name] for name in names]
    except ClassPathError as error:
        raise AgentUnavailable(f"The agent '{settings.id}' names a tool that is not there.") from error


def graph_store(settings: AgentSettings, services: AgentServices, context: RuntimeContext) -> GraphStore | None:
    """The server's store for a graph, as its catalog entry says; None if it says none."""
    if services.store is None or settings.store == "none":
        return None
    owner = SHARED if settings.store == "shared" else context.user_id
    # A query stores nothing.
    return GraphStore(services.store, services.item_bounds, owner, is_read_only=context.session_id is None)


class GraphFlow(AgentFlow):
    """Serves a LangGraph graph unchanged. Owns `managed`, the context that the graph comes from, if there is one."""

    def __init__(
        self,
        settings: AgentSettings,
        services: AgentServices,
        context: RuntimeContext,
        graph: CompiledGraph,
        managed: ManagedGraph | None = None,
        model: BaseChatModel | None = None,
    ) -> None:
        """`model` is the one that the graph's function was given, if it has asked for one."""
        super().__init__(settings, services, context)
        self._asked_for = model
        self._graph = graph
        self._managed = managed

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph

    @property
    def has_ended(self) -> bool:
        return self._managed is not None and self._managed.has_ended

    async def aclose(self) -> None:
        await super().aclose()
        if self._managed is not None:
            await self._managed.aclose()


def is_flow_class(target: object) -> TypeGuard[type[AgentFlow]]:
    """Whether the target of a class path is a class of agents, not a graph or a function that returns one."""
    return isinstance(target, type) and issubclass(target, AgentFlow)
