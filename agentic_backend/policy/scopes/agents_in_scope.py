"""AgentsInScope: the agents of the catalog, each with the settings that apply to it where a user asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.auth.user import User
from agentic_backend.policy.scopes.cascade import Cascade
from agentic_backend.policy.scopes.effective import Effective
from agentic_backend.policy.scopes.scopes import Scopes
from agentic_backend.stores.records import ExchangeRecord, SessionRecord


@dataclass(frozen=True, slots=True)
class AgentInScope:
    agent: CatalogAgent
    """The catalog's agent, with the model and the limits that apply."""
    effective: Effective
    scope: Mapping[str, str]
    """Ids by kind."""


class AgentsInScope:
    def __init__(self, agents: AgentManager, scopes: Scopes, cascade: Cascade, now: Callable[[], datetime]) -> None:
        self._agents = agents
        self._scopes = scopes
        self._cascade = cascade
        self._now = now

    def get(self, agent_id: str | None, user: User, named: Mapping[str, str]) -> AgentInScope:
        """The agent for a user who asks, or begins to, where the session `named` these scopes.

        Raises Forbidden if the user may not use one of them, AssignmentNotOpen, AssignmentClosed, and the errors of
        `AgentManager.get`.
        """
        return self._open(self.seen(agent_id, user, named))

    def seen(self, agent_id: str | None, user: User, named: Mapping[str, str]) -> AgentInScope:
        """The same for a user who only looks: also before the assignment opens, and after it has closed."""
        return self._in_scope(self._agents.get(agent_id, user), self._scopes.of(user, named))

    def again(self, exchange: ExchangeRecord, user: User | None = None) -> AgentInScope:
        """The agent of a stored exchange, in the scope in which it was asked for.

        Raises the errors of `AgentManager.get`, AssignmentNotOpen and AssignmentClosed or, if no user asks, the errors
        of `AgentManager.entry`.
        """
        scope = exchange.policy.scope if exchange.policy is not None else {}
        if user is None:
            return self._in_scope(self._agents.entry(exchange.agent_id), scope)
        return self._open(self._in_scope(self._agents.get(exchange.agent_id, user), scope))

    def of_session(self, session: SessionRecord, user: User | None) -> AgentInScope:
        """The agent of a session in the scopes that it keeps and, if a user does something to it, that the user has.

        Raises as `AgentManager.entry` does.
        """
        return self._in_scope(self._agents.entry(session.agent_id), self._scopes.unchecked(user, session.scope))

    def scope_of(self, session: SessionRecord, user: User) -> Mapping[str, str]:
        """The scope in which the user is in their session."""
        return self._scopes.unchecked(user, session.scope)

    def _open(self, found: AgentInScope) -> AgentInScope:
        found.effective.check_open(self._now())
        return found

    def _in_scope(self, agent: CatalogAgent, scope: Mapping[str, str]) -> AgentInScope:
        applied = self._cascade.applied(agent, scope)
        return AgentInScope(applied.agent, applied.effective, scope)
