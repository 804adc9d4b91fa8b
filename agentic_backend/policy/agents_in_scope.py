"""AgentsInScope: the agents of the catalog, each with the settings that apply to it where a user asks."""

from collections.abc import Mapping
from dataclasses import dataclass

from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.auth.user import User
from agentic_backend.policy.cascade import Cascade
from agentic_backend.policy.effective import Effective
from agentic_backend.policy.scopes import Scopes
from agentic_backend.stores.records import ExchangeRecord, SessionRecord


@dataclass(frozen=True, slots=True)
class AgentInScope:
    agent: CatalogAgent
    """The catalog's agent, with the model and the limits that apply."""
    effective: Effective
    scope: Mapping[str, str]
    """Ids by kind."""


class AgentsInScope:
    def __init__(self, agents: AgentManager, scopes: Scopes, cascade: Cascade) -> None:
        self._agents = agents
        self._scopes = scopes
        self._cascade = cascade

    def get(self, agent_id: str | None, user: User, named: Mapping[str, str]) -> AgentInScope:
        """The agent for a user whose session `named` these scopes.

        Raises Forbidden if the user may not use one of them, and the errors of `AgentManager.get`.
        """
        return self._in_scope(self._agents.get(agent_id, user), self._scopes.of(user, named))

    def again(self, exchange: ExchangeRecord, user: User | None = None) -> AgentInScope:
        """The agent of a stored exchange, in the scope in which it was asked for.

        Raises the errors of `AgentManager.get` or, if no user asks, of `AgentManager.entry`.
        """
        agents = self._agents
        agent = agents.entry(exchange.agent_id) if user is None else agents.get(exchange.agent_id, user)
        return self._in_scope(agent, exchange.policy.scope if exchange.policy is not None else {})

    def of_session(self, session: SessionRecord, user: User | None) -> AgentInScope:
        """The agent of a session in the scopes that it keeps and, if a user does something to it, that the user has.

        Raises as `AgentManager.entry` does.
        """
        return self._in_scope(self._agents.entry(session.agent_id), self._scopes.unchecked(user, session.scope))

    def _in_scope(self, agent: CatalogAgent, scope: Mapping[str, str]) -> AgentInScope:
        applied = self._cascade.applied(agent, scope)
        return AgentInScope(applied.agent, applied.effective, scope)
