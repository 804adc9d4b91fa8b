"""WaitingExchanges: what happens to exchanges that wait for a person: decisions, expiry, a stop.

Nobody runs them, so any instance does it. A decision is stored before it is acted upon, and one compare-and-set lets
each count once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.agents.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.auth.user import Tokens, User
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import ApprovalNotFound, CheckpointMissing, ExchangeNotFound
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import AwaitingHuman
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.sessions.approvals import decided, expired, remaining
from agentic_backend.sessions.asked import Asked
from agentic_backend.sessions.closing import Closing
from agentic_backend.sessions.exchange_launcher import ExchangeLauncher
from agentic_backend.sessions.exchange_views import ExchangeViews, waiting_seq
from agentic_backend.sessions.graph_run import GoOn
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.ledger import StoredLedger
from agentic_backend.sessions.outages import for_seconds, until_stored
from agentic_backend.sessions.outcome import STOPPED
from agentic_backend.sessions.relay import Relay
from agentic_backend.stores.base import Checkpoint, FencedOut, Store
from agentic_backend.stores.records import ExchangeRecord, HumanDecision
from agentic_backend.streaming.interrupts import response_schemas

log = logging.getLogger(__name__)

# Several people's tabs may decide at the same moment, each on another request.
_TRIES = 5


class WaitingExchanges:
    def __init__(
        self,
        instance: Instance,
        store: Store,
        relay: Relay,
        *,
        agents: AgentManager,
        launcher: ExchangeLauncher,
        views: ExchangeViews,
        closing: Closing,
        kpi: Kpi,
    ) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay
        self._agents = agents
        self._launcher = launcher
        self._views = views
        self._closing = closing
        self._kpi = kpi

    async def decide(
        self, user: User, session_id: str | None, exchange_id: str, payload: HumanDecisions, tokens: Tokens | None
    ) -> ExchangeLog:
        """Settle what `payload` decides on; the exchange's log, which goes on once nothing is left to decide.

        All of it counts, or nothing. Raises ExchangeNotFound, ApprovalNotFound, ApprovalMismatch, BadFrame, and what
        keeps its agent from being used.
        """
        for _ in range(_TRIES):
            waiting = await owned_exchange(self._store, user.id, exchange_id)
            if session_id not in (None, waiting.session_id):
                raise ExchangeNotFound
            if waiting.status is not ExchangeStatus.AWAITING_HUMAN:
                raise ApprovalNotFound
            if (pausing := self._relay.running(exchange_id)) is not None:
                # Its pause is stored, but it has not heard so: until then a stop may still end it.
                await pausing.settled.wait()
                continue
            entry, checkpoint = self._agents.get(waiting.agent_id, user), await self._checkpoint(waiting)
            schemas = await asyncio.to_thread(_response_schemas, checkpoint)
            decisions = decided(waiting, payload, user.id, self._store.now(), schemas)
            try:
                return await self._settle(waiting, decisions, entry, checkpoint, tokens)
            except ApprovalNotFound:
                # Somebody has decided since it was read: what is left is looked at anew.
                continue
        raise ApprovalNotFound

    async def expire(self, waiting: ExchangeRecord) -> None:
        """Nobody has answered in time: reject what is left, or end the exchange where that can't be rejected."""
        decisions = expired(waiting, self._store.now())
        try:
            if decisions is None:
                await self.stop(waiting)
                return
            entry = self._agents.entry(waiting.agent_id)
            await self._relay.admit(waiting.user_id, lambda: self._settle(waiting, decisions, entry, None, None))
        except ApprovalNotFound:
            log.info("somebody has decided in time", extra={"exchange_id": waiting.id})

    async def stop(self, waiting: ExchangeRecord) -> ExchangeLog:
        """End it as stopped; its log. Raises ApprovalNotFound where it no longer waits."""
        exchange_log = await self._views.waiting_log(waiting)
        await self._decide(waiting, (), self._instance.id)
        try:
            await until_stored(lambda: self._closing.close(waiting, STOPPED), self._while_ours())
        except FencedOut:
            # Its end is stored, but for whose answer it was.
            await self._views.refresh(exchange_log)
        return exchange_log

    async def _settle(
        self,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        entry: CatalogAgent,
        checkpoint: Checkpoint | None,
        tokens: Tokens | None,
    ) -> ExchangeLog:
        rest = remaining(waiting, decisions)
        exchange_log = await self._views.waiting_log(waiting)
        checkpoint = checkpoint or await self._checkpoint(waiting)
        await self._decide(waiting, decisions, None if rest.requests else self._instance.id)
        for decision in decisions:
            self._kpi.decided(decision.action)
            names = {"exchange_id": waiting.id, "session_id": waiting.session_id, "user_id": decision.by}
            log.info("decided", extra={**names, "action": decision.action, "tool": decision.name})
        if rest.requests:
            self._relay.publish(exchange_log)
            exchange_log.jump_to(waiting_seq(waiting, rest) - 1)
            exchange_log.append(AwaitingHuman, payload=rest)
            return exchange_log
        settled = [*waiting.decisions, *decisions]
        return await self._go_on(waiting, settled, entry, checkpoint, tokens, exchange_log)

    async def _decide(self, waiting: ExchangeRecord, decisions: Sequence[HumanDecision], owner: str | None) -> None:
        """Store the decisions; repeated while the store is away, for they may count and only the answer be lost."""
        token = uuid4().hex
        await until_stored(lambda: self._store.decide(waiting, decisions, owner, token), self._while_ours())

    def _while_ours(self) -> Callable[[float], Awaitable[bool]]:
        """Try again only for so long that nobody else finds the exchange overdue meanwhile."""
        return for_seconds(self._instance.lease_s / 2)

    async def _go_on(
        self,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        entry: CatalogAgent,
        checkpoint: Checkpoint,
        tokens: Tokens | None,
        exchange_log: ExchangeLog,
    ) -> ExchangeLog:
        session = await self._store.get_session(waiting.session_id)
        messages = await self._store.exchange_messages(waiting.id)
        if session is None or not messages:
            raise ExchangeNotFound
        assert checkpoint.state is not None, "a store gives no checkpoint without its state"
        asked = Asked(
            user_id=waiting.user_id,
            agent_id=waiting.agent_id,
            client_exchange_id=waiting.client_exchange_id,
            request_id=waiting.request_id,
            started_at=waiting.started_at,
            session=session,
            opening=messages[0],
            resumes=waiting.resumes,
            ran_ms=waiting.ran_ms,
            first_token_ms=waiting.first_token_ms,
        )
        exchange_log.jump_to(next_epoch(waiting.last_seq))
        return self._launcher.launch(
            asked,
            entry,
            StoredLedger(self._store, session, waiting.id, self._instance),
            tokens,
            runtime_context=waiting.runtime_context,
            go_on=GoOn(
                state=checkpoint.state,
                decisions=decisions,
                stored=messages,
                first_block=waiting.last_seq,
                usage=waiting.usage,
            ),
            exchange_log=exchange_log,
        )

    async def _checkpoint(self, waiting: ExchangeRecord) -> Checkpoint:
        checkpoint = await self._store.checkpoint(waiting.id)
        if checkpoint is None or checkpoint.state is None:
            raise CheckpointMissing
        return checkpoint


def _response_schemas(checkpoint: Checkpoint) -> Mapping[str, Mapping[str, Any]]:
    assert checkpoint.state is not None, "a store gives no checkpoint without its state"
    return response_schemas(ExchangeCheckpoints.unpack(checkpoint.state).interrupts)
