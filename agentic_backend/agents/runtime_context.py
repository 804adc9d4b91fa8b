"""RuntimeContext: the user and the exchange that an agent and its tools work for.

A graph gets it as LangGraph's `context`, or a context of its own schema (see graph_context); `current_context` finds it
in both cases. It never goes through `configurable`, which checkpoints store in clear text.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langgraph.runtime import get_runtime

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.permissions import EVERYTHING, Permissions
from agentic_backend.auth.user_tokens import UserTokens
from agentic_backend.loop.event_loop import running_loop


@dataclass(frozen=True, slots=True)
class AttachedImage:
    """The content of an image that a person has attached."""

    mime: str
    base64: str = field(repr=False)


@dataclass(slots=True)
class RuntimeContext:
    """One per exchange or query."""

    user_id: str
    session_id: str | None
    """None for a query, which is stateless."""
    exchange_id: str
    agent_id: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Data of the client for the agent; never proof of identity."""
    tokens: UserTokens = field(default_factory=UserTokens, repr=False)
    """The user's newest tokens, which a renewal or the user replaces during a run too."""
    run_id: str = ""
    """The id of the exchange in which the run began; it stays the same when the run is interrupted and continues."""
    system_prompts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The system prompts of this run by agent id, for the agent and its crew."""
    prompt_messages: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What stands in front of the messages of those of them whose graphs have their own prompt, by agent id."""
    scope: Mapping[str, str] = field(default_factory=dict)
    """What the exchange is in, such as an assignment: ids by kind of scope."""
    entries: Mapping[str, AgentSettings] = field(default_factory=dict, repr=False)
    """The catalog entries of the agent and its crew, by agent id."""
    images: Mapping[str, AttachedImage] = field(default_factory=dict, repr=False)
    """The attached images that models are shown in this run, by attachment id."""
    permissions: Permissions = EVERYTHING
    """What the user may do."""
    withheld_tools: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    """The names of the tools that the user may not use, by agent id, for the agent and its crew."""
    filter_tool_result: Callable[[str, Sequence[str], str], Awaitable[str]] | None = field(default=None, repr=False)
    """Passes a tool's name, all names by which policy may mean it, and a text of its result to the modules, and returns
    the text that a model sees; None if no module wants it.
    """
    keep_ui_resource: Callable[[str], Awaitable[str | None]] | None = field(default=None, repr=False)
    """Keeps an HTML document of an MCP server with the session and returns its URL, or None where it can't; None in a
    query."""
    known_secrets: Callable[[], Sequence[str]] = field(default=tuple, repr=False)
    """The secrets that a tool could put into the text of a failure: those of the process and the user's tokens."""
    most_steps: int = 1_000
    """How many steps each graph of the run may take."""
    start_in_background: Callable[..., str] | None = field(default=None, repr=False)
    """Begins a tool's work in the background, as BackgroundCalls.start does; None outside of a server."""
    applications: Mapping[str, object] = field(default_factory=dict, repr=False)
    """The applications that serve, by the class paths of their classes."""
    record: Any = field(default=None, repr=False)
    """The exchange as it has begun, which says who pays for it; None outside of one."""
    loop: asyncio.AbstractEventLoop | None = field(default_factory=running_loop, repr=False)
    """The server's event loop, where all that the context offers runs."""

    def __post_init__(self) -> None:
        self.run_id = self.run_id or self.exchange_id

    @property
    def thread_id(self) -> str:
        """LangGraph's name for the conversation: the session's id, or that of the query."""
        return self.session_id or self.exchange_id

    @property
    def configurable(self) -> dict[str, str]:
        """LangGraph's `configurable`. Checkpoints and traces show it, so it never has a token."""
        return {"thread_id": self.thread_id, "user_id": self.user_id}

    @property
    def access_token(self) -> str | None:
        """The user's newest access token; None if the user has brought none."""
        return self.tokens.access_token

    @property
    def refresh_token(self) -> str | None:
        return self.tokens.refresh_token

    def idempotency_key(self, call_id: str) -> str:
        """A key for the side effects of tool call `call_id`; it is the same each time this run repeats the call.

        An interrupted tool runs again when its run continues; a service that knows the key can do the work only once.
        """
        return hashlib.sha256(f"{self.run_id}:{call_id}".encode()).hexdigest()[:32]


def current_context() -> RuntimeContext:
    """The RuntimeContext of the run that the caller belongs to: a node, a tool, or a thread that LangGraph started.

    Raises LookupError outside of a run.
    """
    found = find_context()
    if found is None:
        raise LookupError("There is no RuntimeContext: this code runs outside of an exchange.")
    return found


def find_context() -> RuntimeContext | None:
    """What `current_context` returns; None outside of a run."""
    try:
        given = getattr(get_runtime(), "context", None)
    except (RuntimeError, KeyError):
        # No graph runs here.
        given = None
    return given if isinstance(given, RuntimeContext) else _current.get(None)


def make_current(context: RuntimeContext) -> None:
    """Let `current_context` find `context` in this task, and in what it starts from here on."""
    _current.set(context)


_current: ContextVar[RuntimeContext] = ContextVar("runtime_context")
