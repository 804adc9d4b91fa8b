"""Reruns: an author runs an exchange again from one of its steps, in a branch; its own session stays as it is."""

import asyncio
from dataclasses import replace

from agentic_backend.agents.state.snapshot import Snapshot
from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import CheckpointMissing, SessionNotFound
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.policy.scopes.agents_in_scope import AgentsInScope
from agentic_backend.protocol.messages import Channel, MessageMetadata, Role
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.access import asked_by, owned_exchange
from agentic_backend.sessions.branches import Branches
from agentic_backend.sessions.reading.run_views import check_author, steps_of
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.waiting.resumption import Resumption
from agentic_backend.stores.base import Checkpoint
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord, MessageDraft


class Reruns:
    def __init__(
        self,
        services: ExchangeServices,
        agents: AgentsInScope,
        branches: Branches,
        resumption: Resumption,
        orchestrator: SessionOrchestrator,
    ) -> None:
        self._store = services.store
        self._run_steps = services.run_steps
        self._agents = agents
        self._branches = branches
        self._resumption = resumption
        self._orchestrator = orchestrator

    async def rerun(
        self, user: User, exchange_id: str, graph_step: int, tokens: Tokens | None, request_id: str
    ) -> ExchangeLog:
        """Fork the session at the user's exchange, and run it there from the state before `graph_step` of its graph.

        What people decided in the old run does not count in the new one. Raises Forbidden, ExchangeNotFound, NotFound,
        CheckpointMissing, TooManyRuns, and the errors of `Branches.fork` and `AgentManager.get`.
        """
        check_author(user)

        async def begin() -> ExchangeLog:
            return await self._begin(user, exchange_id, graph_step, tokens, request_id)

        return await self._orchestrator.admit_again(user, exchange_id, begin)

    async def _begin(
        self, user: User, exchange_id: str, graph_step: int, tokens: Tokens | None, request_id: str
    ) -> ExchangeLog:
        found = await owned_exchange(self._store, user.id, exchange_id)
        old = replace(found, policy=asked_by(user, found.policy))
        state = steps_of(self._run_steps, exchange_id).state_before(graph_step)
        if state is None:
            raise CheckpointMissing("The state before this step is not kept, as it was too large or can't be stored.")
        entry = self._agents.again(old, user)
        messages = await self._store.exchange_messages(old.id, 1)
        if not messages:
            raise SessionNotFound
        branch = await self._branches.fork(user, old.session_id, old.first_rank)
        new = self._resumption.exchange_after(old, branch, request_id)
        # It is a new run, not the rest of the old one: its tools run anew, and people are asked again.
        new = replace(new, resumes=None, decisions=[], traceparent=None)
        opening = MessageDraft(
            role=Role.USER,
            channel=Channel.FINAL,
            parts=messages[0].parts,
            model_parts=messages[0].model_parts,
            metadata=MessageMetadata(extras={"reruns": old.id, "step": graph_step}),
        )
        record = CheckpointRecord(
            kind=CheckpointKind.RESUME_REQUEST, at=new.started_at, exchange_id=new.id, request_id=request_id
        )
        # In a thread, because it may hold a long conversation.
        state = await asyncio.to_thread(_with_run_id, state, new.id)
        return await self._resumption.go_on(new, opening, Checkpoint(record, state), entry, tokens, for_author=True)


def _with_run_id(state: bytes, run_id: str) -> bytes:
    """`state` as that of the run with this id, by which tools know whether they have run before."""
    return Snapshot.unpack(state)._replace(run_id=run_id).pack()
