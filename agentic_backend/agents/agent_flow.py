"""AgentFlow: the base class of an agent.

An AgentFactory builds one instance per (session, agent), sets its runtime context, and awaits `async_init()` once; from
then on the instance serves one exchange after the other until `aclose()`. An author overrides `async_init` and
`get_compiled_graph`; whoever has a compiled graph needs no class at all (see GraphFlow).
"""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command

from agentic_backend.agents.catalog import AgentSettings, AgentTuning
from agentic_backend.agents.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.kept_state import kept_channels
from agentic_backend.agents.models import ChatModels
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.tool_approval import ToolApproval
from agentic_backend.auth.user import Tokens
from agentic_backend.errors import AgentUnavailable, Unauthenticated
from agentic_backend.settings import McpServerSettings

if TYPE_CHECKING:
    # MCP is imported by the agents that use it: it takes a quarter of a second.
    from agentic_backend.mcp.mcp_runtime import MCPRuntime

StreamPart = tuple[tuple[str, ...], str, Any]
"""One item of a LangGraph stream: the namespace of the subgraph that it comes from, its mode, its payload."""

CompiledGraph = Pregel[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class AgentServices:
    """What the server lends to agents."""

    models: ChatModels
    refresh_tokens: Callable[[str, str], Awaitable[Tokens]]
    """Trades a refresh token for newer tokens of the user with this id."""
    exchange_token: Callable[[str, str], Awaitable[Tokens]]
    """Trades a user's access token for one of an audience."""
    mcp_servers: Mapping[str, McpServerSettings] = field(default_factory=dict)
    mcp_server_up: Callable[[str, bool], None] = lambda server_id, up: None
    """Told whenever a session with an MCP server opens, or fails."""


class AgentFlow:
    tool_names: ClassVar[Sequence[str]] = ()
    """The tools that people are told the agent has."""

    def __init__(self, settings: AgentSettings, services: AgentServices, context: RuntimeContext) -> None:
        self.settings = settings
        self.runtime_context = context
        self.services = services
        self.mcp: MCPRuntime | None = None
        """Set by `async_init` where the agent uses MCP servers."""

    @property
    def tuning(self) -> AgentTuning:
        return self.settings.tuning

    def tuned(self, field: str, default: str) -> str:
        """The text of a tuning field of the catalog entry, or `default`."""
        return str(self.tuning.fields.get(field, default))

    def chat_model(self) -> BaseChatModel:
        """The chat model that the catalog entry names, or the server's default one."""
        return self.services.models.get(self.settings.model)

    def approval_middleware(self) -> list[AgentMiddleware[Any, Any, Any]]:
        """What asks a person before the tools run that `require_approval` of the catalog entry names.

        It goes first into create_agent(middleware=[…]); where it is missing, an entry that requires approval is not
        served.
        """
        return [ToolApproval(self.settings)] if self.settings.require_approval else []

    async def async_init(self) -> None:
        """Open what the agent needs and build its graph. Runs once, before the first exchange."""

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
        """Run the graph: node updates and custom events, subgraphs included; tokens come by callback.

        `given` is the state that a run begins with, a command that resumes a paused one, or None: go on from where the
        checkpoints are. The run puts there where it is, step by step. `control` asks it to stop between two steps. The
        values of the root graph come too where it keeps more than messages. Raises GraphDrained where it has stopped
        because of `control`.
        """
        # A copy, because the graph is shared by all its sessions. A checkpointer of the author's would collect every
        # exchange for good.
        graph = copy.copy(self.get_compiled_graph())
        graph.checkpointer = checkpoints
        modes = ["updates", "custom"]
        if self.kept_channels:
            modes.append("values")
        stream = graph.astream(
            dict(given) if isinstance(given, Mapping) else given,
            config,
            context=self.runtime_context,
            stream_mode=cast(Any, modes),
            subgraphs=True,
            durability="async" if checkpoints is not None else None,
            control=control,
        )
        return cast(AsyncIterator[StreamPart], stream)

    @cached_property
    def kept_channels(self) -> frozenset[str]:
        """The channels beside `messages` whose values the next exchange starts from."""
        return kept_channels(self.get_compiled_graph())

    async def refresh_user_access_token(self) -> str:
        """Trade the user's refresh token for a newer access token, for this and the following calls.

        Raises Unauthenticated where the user gave no refresh token, or it is no longer good.
        """
        context = self.runtime_context
        if context.refresh_token is None:
            raise Unauthenticated("There is no refresh token to get a newer access token with.")
        tokens = await self.services.refresh_tokens(context.refresh_token, context.user_id)
        context.access_token = tokens.access_token
        context.refresh_token = tokens.refresh_token or context.refresh_token
        return tokens.access_token

    async def aclose(self) -> None:
        """Close what `async_init` opened. Awaited once, when the agent is evicted or its session deleted.

        Who overrides it awaits `super().aclose()` too.
        """
        if self.mcp is not None:
            await self.mcp.aclose()


class GraphFlow(AgentFlow):
    """Serves a compiled LangGraph graph as it is."""

    def __init__(
        self, settings: AgentSettings, services: AgentServices, context: RuntimeContext, graph: CompiledGraph
    ) -> None:
        super().__init__(settings, services, context)
        self._graph = graph

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
