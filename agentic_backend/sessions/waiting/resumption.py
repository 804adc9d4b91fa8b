"""Resumption: continues an interrupted exchange from its last checkpoint, as a new exchange of its session."""

import logging
from dataclasses import replace
from uuid import uuid4

from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import CheckpointMissing, SessionNotFound, StoreUnavailable
from agentic_backend.exchange.launcher import ExchangeLauncher
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart, ResumePoint
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope, AgentsInScope
from agentic_backend.protocol.messages import Channel, ExchangeStatus, MessageMetadata, Role, TokenUsage
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.access import asked_by, owned_exchange
from agentic_backend.stores.base import Checkpoint, Written
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord, ExchangeRecord, MessageDraft, SessionRecord

log = logging.getLogger(__name__)

# An exchange that crashes its server would otherwise be resumed, and crash a server, forever.
_BY_ITSELF_AT_MOST = 3


class Resumption:
    def __init__(self, services: ExchangeServices, agents: AgentsInScope, launcher: ExchangeLauncher) -> None:
        self._instance = services.instance
        self._store = services.store
        self._relay = services.relay
        self._agents = agents
        self._launcher = launcher

    async def resume(self, user: User, exchange_id: str, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        """Resume the user's interrupted exchange, and return the log of the new one.

        Raises ExchangeNotFound, SessionNotFound, CheckpointMissing, SessionCompleted, SessionBusy, and the errors of
        `AgentManager.get`.
        """
        found = await owned_exchange(self._store, user.id, exchange_id)
        interrupted = replace(found, policy=asked_by(user, found.policy))
        entry = self._agents.again(interrupted, user)
        return await self._resume(interrupted, entry, tokens, request_id, for_author=user.sees_details)

    async def resume_by_itself(self, interrupted: ExchangeRecord) -> None:
        """Resume an exchange that a crash interrupted, if its agent has `auto_resume`."""
        entry = self._agents.again(interrupted)
        if not entry.agent.settings.auto_resume or await self._times_resumed(interrupted) >= _BY_ITSELF_AT_MOST:
            return

        async def begin() -> ExchangeLog:
            # Read again: the caller read it before its end was stored, and it may have been resumed since.
            old = await self._store.get_exchange(interrupted.id)
            if old is None:
                raise SessionNotFound
            return await self._resume(old, entry, None, old.request_id)

        await self._relay.admit(interrupted.user_id, begin, goes_on=True)

    async def _times_resumed(self, exchange: ExchangeRecord) -> int:
        times, former = 0, exchange.resumes
        while former is not None and times < _BY_ITSELF_AT_MOST:
            times += 1
            record = await self._store.get_exchange(former)
            former = record.resumes if record is not None else None
        return times

    async def _resume(
        self,
        old: ExchangeRecord,
        entry: AgentInScope,
        tokens: Tokens | None,
        request_id: str,
        *,
        for_author: bool = False,
    ) -> ExchangeLog:
        """Begin the exchange that continues `old`, which has just been read."""
        checkpoint = await self._store.checkpoint(old.id)
        session = await self._store.get_session(old.session_id)
        # Only the first message is needed; the others may be many and large.
        messages = await self._store.exchange_messages(old.id, 1)
        if session is None or not messages:
            raise SessionNotFound
        if checkpoint is None or checkpoint.state is None or old.status is not ExchangeStatus.INTERRUPTED:
            raise CheckpointMissing
        new = self.exchange_after(old, session, request_id)
        asked_again = MessageDraft(
            role=Role.USER,
            channel=Channel.FINAL,
            parts=messages[0].parts,
            model_parts=messages[0].model_parts,
            metadata=MessageMetadata(extras={"resumes": old.id}),
        )
        begun = Checkpoint(_begun(new, checkpoint.record), checkpoint.state)
        return await self.go_on(new, asked_again, begun, entry, tokens, for_author=for_author)

    async def go_on(
        self,
        new: ExchangeRecord,
        asked_again: MessageDraft,
        begun: Checkpoint,
        entry: AgentInScope,
        tokens: Tokens | None,
        *,
        for_author: bool,
    ) -> ExchangeLog:
        """Begin `new` with the message that it repeats, from the checkpoint `begun`; return its log."""
        assert begun.state is not None, "it goes on from a state"
        with self._relay.claiming(new.id):
            written = await self._begin(new, asked_again, begun)
            [opening] = written.messages
            resume_point = ResumePoint(
                state=begun.state,
                decisions=new.decisions or None,
                stored=[opening],
                first_block=0,
                usage=TokenUsage(),
            )
            start = ExchangeStart(
                new,
                entry.agent,
                written.session,
                opening,
                resume_point,
                effective=entry.effective,
                for_author=for_author,
            )
            return self._launcher.launch(start, tokens)

    async def _begin(self, new: ExchangeRecord, opening: MessageDraft, checkpoint: Checkpoint) -> Written:
        """Begin `new` in the store. After a StoreUnavailable, check whether only the answer was lost."""
        try:
            return await self._store.begin_exchange(new, opening, checkpoint=checkpoint)
        except StoreUnavailable:
            messages = await self._store.exchange_messages(new.id)
            session = await self._store.get_session(new.session_id)
            if session is None or session.active_exchange_id != new.id:
                raise
            return Written(session, messages)

    def exchange_after(self, old: ExchangeRecord, session: SessionRecord, request_id: str) -> ExchangeRecord:
        """The exchange that continues `old`. It keeps the decisions, because approved calls may not have run yet."""
        return ExchangeRecord(
            id=uuid4().hex,
            session_id=session.id,
            user_id=old.user_id,
            agent_id=old.agent_id,
            request_id=request_id,
            first_rank=session.next_rank,
            started_at=max(self._store.now(), session.updated_at),
            resumes=old.id,
            runtime_context=old.runtime_context,
            policy=old.policy,
            decisions=old.decisions,
            owner=self._instance.id,
            traceparent=old.traceparent,
        )


def _begun(new: ExchangeRecord, last: CheckpointRecord) -> CheckpointRecord:
    """The record of the checkpoint that `new` starts from: the `last` one of the interrupted exchange."""
    return CheckpointRecord(
        kind=CheckpointKind.RESUME_REQUEST,
        at=new.started_at,
        exchange_id=new.id,
        request_id=new.request_id,
        tool=last.tool,
        partial_output=last.partial_output,
    )
