"""SessionEvents: what follows when an exchange of a session is answered, and when a session ends.

The parts that notice these events call it; it knows who has to be told.
"""

import contextlib

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError
from agentic_backend.exchange.write.text_gate import TextGate, gate_of
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope, AgentsInScope
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.asking.asked_sessions import AskedSessions
from agentic_backend.sessions.asking.quitting import asks_to_quit
from agentic_backend.sessions.asking.titles import Titles
from agentic_backend.sessions.session_ends import OnEnded
from agentic_backend.stores.records import ExchangeRecord, MessageRecord, SessionRecord


class SessionEvents:
    def __init__(
        self,
        relay: Relay,
        factory: AgentFactory,
        agents: AgentsInScope,
        modules: ModuleSupervisor,
        titles: Titles,
        asked: AskedSessions,
        on_ended: OnEnded,
    ) -> None:
        self._relay = relay
        self._factory = factory
        self._agents = agents
        self._modules = modules
        self._titles = titles
        self._asked = asked
        self._on_ended = on_ended

    def answered(
        self, session: SessionRecord, opening: MessageRecord, exchange: ExchangeRecord, status: ExchangeStatus
    ) -> None:
        """An exchange is answered, or waits for a person (see ExchangeServices.on_answered)."""
        self._relay.tell_lists(session.user_id, session.id, status if status.ended else None)
        self._asked.answered(session)
        if not asks_to_quit(opening.parts):
            self._titles.name_after(session, opening, exchange, self._modules_of)
        if session.state is SessionState.COMPLETED:
            # The exchange's own agent was in use when the session was completed.
            self.close_agents(session.id)

    def ended(self, session: SessionRecord, user: User | None) -> None:
        """A session was completed by `user`, or by the server."""
        # Where its agent is no longer served, nobody knows which modules apply.
        with contextlib.suppress(AgenticError):
            self._modules.session_event(Point.SESSION_END, session, self._agents.of_session(session, user), user)
        self._on_ended(session, user)

    def close_agents(self, session_id: str) -> None:
        """Close the session's agents here, in the background."""
        # A process that goes closes all its agents anyway, and its relay awaits no new tasks.
        if not self._relay.draining:
            self._relay.spawn(self._factory.teardown_session_agents(session_id))

    def gate(self, exchange: ExchangeRecord, session: SessionRecord, opening: MessageRecord) -> TextGate | None:
        """The gate for the texts of an exchange that runs nowhere; None if its agent is no longer served."""
        try:
            found = self._agents.again(exchange)
        except AgenticError:
            return None
        return gate_of(exchange, found.agent.settings, opening, self._applying(exchange, session, found))

    def _modules_of(self, exchange: ExchangeRecord, session: SessionRecord) -> ExchangeModules | None:
        """The modules that apply to texts of an exchange. Raises AgenticError if its agent is no longer served."""
        if not self._modules.has(Point.AFTER_AI):
            return None
        return self._applying(exchange, session, self._agents.again(exchange))

    def _applying(
        self, exchange: ExchangeRecord, session: SessionRecord, found: AgentInScope
    ) -> ExchangeModules | None:
        return self._modules.of_exchange(exchange, found.agent.settings, session, found.effective.modules)
