"""AskedSessions: finds the session and the agent of an ask, without a read where the session was answered here last.

What is remembered may be older than the session: another instance may have changed, completed or deleted it since. So
it serves only where the store compares all that counts when the exchange begins, and nobody looks at the session before
that: neither a module nor a limit of the session.
"""

from dataclasses import replace

from cachetools import LRUCache

from agentic_backend.auth.user import User
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope, AgentsInScope
from agentic_backend.sessions.access import owned_session
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import SessionRecord

# One takes 1 to 2 KiB.
_REMEMBERED = 4_096


class AskedSessions:
    def __init__(self, store: Store, agents: AgentsInScope, modules: ModuleSupervisor) -> None:
        self._store = store
        self._agents = agents
        self._modules = modules
        self._answered: LRUCache[str, SessionRecord] = LRUCache(_REMEMBERED)
        """By id, as their last write here returned them."""

    def answered(self, session: SessionRecord) -> None:
        """Remember a session whose exchange has ended, but no text of it."""
        if session.active_exchange_id is None:
            self._answered[session.id] = replace(session, title="")

    async def find(
        self, user: User, session_id: str, agent_id: str | None, *, leaves: bool = False
    ) -> tuple[SessionRecord, AgentInScope]:
        """The user's session, and the agent `agent_id` in its scope, or else the session's own.

        The session may be an older version of itself, without its title. Whoever `leaves` it may do so also where its
        assignment has closed. Raises SessionNotFound, and what AgentsInScope.get raises.
        """
        found_for = self._agents.seen if leaves else self._agents.get
        session = None if self._modules.health else self._answered.get(session_id)
        if session is not None and session.user_id == user.id:
            found = found_for(agent_id or session.agent_id, user, session.scope)
            if not found.effective.limits_sessions:
                return session, found
        session = await owned_session(self._store, user.id, session_id)
        return session, found_for(agent_id or session.agent_id, user, session.scope)
