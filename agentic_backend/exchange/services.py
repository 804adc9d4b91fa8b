"""ExchangeServices: the dependencies that all exchanges of a process share. `wire_sessions` makes them once."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.topics.chat_profiles import CurrentProfiles
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.lifecycle import Outcome
from agentic_backend.exchange.past.compactor import Compactor
from agentic_backend.exchange.past.recall import Recall
from agentic_backend.exchange.run.background_calls import BackgroundCalls
from agentic_backend.exchange.run.recent_run_steps import RecentRunSteps
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.exchange.write.writer import ExchangeWriter, QueryWriter, StoreWriter
from agentic_backend.kpi import Kpi
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.prompt.token_counts import TokenCounts
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord, MessageRecord, SessionRecord
from agentic_backend.streaming.model.stream_turns import StreamTurns
from agentic_backend.tracing.tracing import Tracing

OnAnswered = Callable[[SessionRecord, MessageRecord, ExchangeRecord, ExchangeStatus], None]
"""Takes the session and the user's message of an exchange that is answered, or waits for a person, and its status."""


@dataclass(frozen=True, slots=True)
class ExchangeServices:
    instance: Instance
    store: Store
    relay: Relay
    factory: AgentFactory
    kpi: Kpi
    limits: LimitsSettings
    tokens: TokenCache
    ledger: UsageLedger
    modules: ModuleSupervisor
    profiles: CurrentProfiles
    """The chat profiles that sessions and asks may name."""
    token_counts: TokenCounts
    """How many tokens texts and messages have for a model."""
    compactor: Compactor
    """Keeps the sessions' histories within their chat profiles."""
    background: BackgroundCalls
    """The work of tools that goes on after their calls."""
    show_stored: Callable[[ExchangeLog], Awaitable[bool]]
    """Shows in a log the end or the pause that is stored; returns False if the store has no such exchange."""
    close: Callable[[ExchangeRecord, Outcome, ExchangeLog], Awaitable[object]]
    """Ends an exchange that runs here with what is stored, and the unfinished texts of its log (see OrphanClosing)."""
    on_answered: OnAnswered
    """Called for each exchange of a session when its end or its pause is stored."""
    run_steps: RecentRunSteps = field(default_factory=RecentRunSteps)
    """The steps of the last runs that authors asked for."""
    tracing: Tracing = field(default_factory=Tracing)
    turns: StreamTurns = field(default_factory=StreamTurns)
    """What the streams of all models share the event loop by."""

    @property
    def recall(self) -> Recall:
        return Recall(self.store)

    def history_exchanges(self, agent: CatalogAgent) -> int:
        """The most past exchanges that the agent is given."""
        own = agent.settings.chat.history_exchanges
        return self.limits.history_exchanges if own is None else own

    def writer(self, start: ExchangeStart) -> ExchangeWriter:
        if start.session is None:
            return QueryWriter(self.store, self.ledger, start.record.id, start.opening.rank + 1)
        return StoreWriter(self.store, start.session, start.record.id, self.instance)
