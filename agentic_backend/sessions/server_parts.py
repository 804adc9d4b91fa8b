"""ServerParts: what the services of this package are built on. The composition root opens and closes them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.chat_profiles import ChatProfiles
from agentic_backend.exchange.instance import Instance
from agentic_backend.kpi import Kpi
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.scopes.policies_file import Policies
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.documents import Documents
from agentic_backend.stores.base import Store
from agentic_backend.streaming.model.stream_turns import StreamTurns
from agentic_backend.tracing.tracing import Tracing


async def _nothing_to_forget(user_id: str) -> None:
    """Where there are no applications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    settings: Settings
    instance: Instance
    store: Store
    relay: Relay
    agents: AgentManager
    factory: AgentFactory
    models: ChatModels
    kpi: Kpi
    tokens: TokenCache
    ledger: UsageLedger
    policies: Policies
    modules: ModuleSupervisor
    tracing: Tracing
    turns: StreamTurns
    """What the streams of all models share the event loop by."""
    documents: Documents = field(default_factory=Documents)
    """What reads files, for people and for applications."""
    applications: Mapping[str, object] = field(default_factory=dict)
    """The applications that serve, by the class paths of their classes."""
    forget_in_applications: Callable[[str], Awaitable[None]] = _nothing_to_forget
    """Has the applications that serve let go of what they hold of a user elsewhere. Raises StoreUnavailable."""

    def profiles(self) -> ChatProfiles:
        """The chat profiles that sessions and asks may name now."""
        return self.agents.chat_profiles
