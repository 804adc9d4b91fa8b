"""Resumption: an interrupted exchange goes on, as a new exchange of its session, from its last checkpoint."""

import logging
from functools import partial
from uuid import uuid4

from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.auth.user import Tokens, User
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import CheckpointMissing, SessionNotFound, StoreUnavailable
from agentic_backend.protocol.messages import (
    Channel,
    ExchangeStatus,
    MessageDraft,
    MessageMetadata,
    Role,
    Session,
    TokenUsage,
)
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.sessions.asked import Asked
from agentic_backend.sessions.exchange_launcher import ExchangeLauncher
from agentic_backend.sessions.graph_run import GoOn
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.ledger import StoredLedger
from agentic_backend.sessions.relay import Relay
from agentic_backend.stores.base import Checkpoint, Store, Written
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord, ExchangeRecord

log = logging.getLogger(__name__)

# What goes on by itself and takes its server down each time would do so for ever.
_BY_ITSELF_AT_MOST = 3


class Resumption:
    def __init__(
        self, instance: Instance, store: Store, relay: Relay, *, agents: AgentManager, launcher: ExchangeLauncher
    ) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay
        self._agents = agents
        self._launcher = launcher

    async def resume(self, user: User, exchange_id: str, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        """Go on with the user's interrupted exchange; the new one's log.

        Raises ExchangeNotFound, CheckpointMissing, SessionCompleted, SessionBusy, and what keeps its agent from being
        used.
        """
        interrupted = await owned_exchange(self._store, user.id, exchange_id)
        entry = self._agents.get(interrupted.agent_id, user)
        return await self._resume(interrupted, entry, tokens, request_id)

    async def resume_by_itself(self, interrupted: ExchangeRecord) -> None:
        """Go on with an exchange that was interrupted by a crash, where its agent may do so unasked."""
        entry = self._agents.entry(interrupted.agent_id)
        if not entry.settings.auto_resume or await self._times_resumed(interrupted) >= _BY_ITSELF_AT_MOST:
            return
        begin = partial(self._resume, interrupted, entry, None, interrupted.request_id)
        await self._relay.admit(interrupted.user_id, begin)

    async def _times_resumed(self, exchange: ExchangeRecord) -> int:
        times, former = 0, exchange.resumes
        while former is not None and times < _BY_ITSELF_AT_MOST:
            times += 1
            record = await self._store.get_exchange(former)
            former = record.resumes if record is not None else None
        return times

    async def _resume(
        self, interrupted: ExchangeRecord, entry: CatalogAgent, tokens: Tokens | None, request_id: str
    ) -> ExchangeLog:
        # Read anew: it may be interrupted only since it was read, or gone on already.
        old = await self._store.get_exchange(interrupted.id)
        checkpoint = await self._store.checkpoint(interrupted.id)
        session = await self._store.get_session(interrupted.session_id)
        messages = await self._store.exchange_messages(interrupted.id)
        if session is None or old is None or not messages:
            raise SessionNotFound
        if checkpoint is None or checkpoint.state is None or old.status is not ExchangeStatus.INTERRUPTED:
            raise CheckpointMissing
        new = self._exchange_after(old, session, request_id)
        asked_again = MessageDraft(
            role=Role.USER,
            channel=Channel.FINAL,
            parts=messages[0].parts,
            metadata=MessageMetadata(extras={"resumes": old.id}),
        )
        begun = Checkpoint(_begun(new, checkpoint.record), checkpoint.state)
        written = await self._begin(new, asked_again, begun)
        [opening] = written.messages
        asked = Asked(
            user_id=new.user_id,
            agent_id=new.agent_id,
            client_exchange_id=None,
            request_id=request_id,
            started_at=new.started_at,
            session=written.session,
            opening=opening,
            resumes=old.id,
        )
        return self._launcher.launch(
            asked,
            entry,
            StoredLedger(self._store, written.session, new.id, self._instance),
            tokens,
            runtime_context=new.runtime_context,
            go_on=GoOn(
                state=checkpoint.state,
                decisions=old.decisions or None,
                stored=[opening],
                first_block=0,
                usage=TokenUsage(),
            ),
        )

    async def _begin(self, new: ExchangeRecord, opening: MessageDraft, checkpoint: Checkpoint) -> Written:
        """Begin `new` in the store, which knows it by its id where only the answer was lost."""
        try:
            return await self._store.begin_exchange(new, opening, checkpoint=checkpoint)
        except StoreUnavailable:
            messages = await self._store.exchange_messages(new.id)
            session = await self._store.get_session(new.session_id)
            if session is None or session.active_exchange_id != new.id:
                raise
            return Written(session, messages)

    def _exchange_after(self, old: ExchangeRecord, session: Session, request_id: str) -> ExchangeRecord:
        """The exchange that continues `old`. It has its decisions: what they let go on may not have been done yet."""
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
            decisions=old.decisions,
            owner=self._instance.id,
        )


def _begun(new: ExchangeRecord, last: CheckpointRecord) -> CheckpointRecord:
    """What is told of the checkpoint that `new` starts from, which was the `last` one of the exchange before."""
    return CheckpointRecord(
        kind=CheckpointKind.RESUME_REQUEST,
        at=new.started_at,
        exchange_id=new.id,
        request_id=new.request_id,
        tool=last.tool,
        partial_output=last.partial_output,
    )
