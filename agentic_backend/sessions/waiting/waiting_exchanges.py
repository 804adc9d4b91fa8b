"""WaitingExchanges: handles decisions on waiting exchanges, their expiry and their stop.

A waiting exchange has no owner, so any instance can do this. A decision is stored before it takes effect; a
compare-and-set in the store makes it count once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from uuid import uuid4

from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import AgentNotFound, ApprovalNotFound, CheckpointMissing, ExchangeNotFound
from agentic_backend.exchange.end.orphan_closing import OrphanClosing
from agentic_backend.exchange.end.outages import Result, for_seconds, until_stored
from agentic_backend.exchange.launcher import ExchangeLauncher
from agentic_backend.exchange.lifecycle import STOPPED
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart, ResumePoint
from agentic_backend.exchange.write.boundary_events import show_waiting
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope, AgentsInScope
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.access import asked_by, owned_exchange
from agentic_backend.sessions.reading.exchange_views import ExchangeViews, waiting_seq
from agentic_backend.sessions.waiting.approvals import decided, expired, remaining
from agentic_backend.sessions.waiting.decision_review import Decided, DecisionReview
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, FencedOut
from agentic_backend.stores.records import ExchangeRecord, HumanDecision
from agentic_backend.streaming.people.interrupts import is_refusal

log = logging.getLogger(__name__)

# Several tabs may decide at the same moment, each on another request.
_TRIES = 5


class WaitingExchanges:
    def __init__(
        self,
        services: ExchangeServices,
        agents: AgentsInScope,
        launcher: ExchangeLauncher,
        views: ExchangeViews,
        closing: OrphanClosing,
    ) -> None:
        self._instance = services.instance
        self._store = services.store
        self._relay = services.relay
        self._kpi = services.kpi
        self._agents = agents
        self._launcher = launcher
        self._views = views
        self._closing = closing
        self._review = DecisionReview(services)

    async def decide(
        self, user: User, session_id: str | None, exchange_id: str, payload: HumanDecisions, tokens: Tokens | None
    ) -> ExchangeLog:
        """Apply all decisions of `payload`, or none, and return the exchange's log.

        Modules look at what the person says in them. The exchange continues once no request is open. Raises
        ExchangeNotFound, ApprovalNotFound, ApprovalMismatch, BadFrame, Blocked, CheckpointMissing, and the errors of
        `AgentManager.get`.
        """
        for _ in range(_TRIES):
            waiting = await owned_exchange(self._store, user.id, exchange_id)
            if session_id not in (None, waiting.session_id):
                raise ExchangeNotFound
            if waiting.status is not ExchangeStatus.AWAITING_HUMAN:
                raise ApprovalNotFound
            if (pausing := self._relay.running(exchange_id)) is not None:
                # Its pause is stored, but its task does not know yet: until then a stop may still end it.
                await pausing.settled.wait()
                continue
            # By the present token: a role may have been withdrawn since the ask.
            waiting = replace(waiting, policy=asked_by(user, waiting.policy))
            entry, checkpoint = self._agents.again(waiting, user), await self._checkpoint(waiting)
            decisions = await asyncio.to_thread(decided, waiting, payload, user.id, self._store.now())
            looked = await self._review.look_at(waiting, decisions, entry)
            try:
                return await self._settle(looked, entry, checkpoint, tokens, for_author=user.sees_details)
            except ApprovalNotFound:
                # Another decision came first: read again what is still open.
                continue
        raise ApprovalNotFound

    async def expire(self, waiting: ExchangeRecord) -> None:
        """Reject the requests that were not decided in time; end the exchange if that is not possible.

        It is not if one of them can't be rejected, or if the exchange can't continue after it. Raises the errors of
        `Relay.admit`, and AgentUnavailable.
        """
        try:
            if not await self._reject(waiting):
                await self.stop(waiting)
        except ApprovalNotFound:
            log.info("approval decided before its deadline", extra={"exchange_id": waiting.id})

    async def _reject(self, waiting: ExchangeRecord) -> bool:
        """Reject the open requests and let the exchange continue; False if that is not possible."""
        decisions = expired(waiting, self._store.now())
        if decisions is None:
            return False
        try:
            entry = self._agents.again(waiting)

            async def begin() -> ExchangeLog:
                return await self._settle(Decided(waiting, decisions), entry, await self._checkpoint(waiting), None)

            await self._relay.admit(waiting.user_id, begin, goes_on=True)
        except (AgentNotFound, CheckpointMissing):
            # Not for AgentUnavailable: an operator can repair the agent's entry, so the exchange keeps waiting for it.
            return False
        return True

    async def stop(self, waiting: ExchangeRecord) -> ExchangeLog:
        """End the exchange as stopped, and return its log. Raises ApprovalNotFound if it no longer waits."""
        return await self._end(Decided(waiting, ()))

    async def _end(self, decided: Decided) -> ExchangeLog:
        """End the exchange as stopped, with these last decisions. Raises ApprovalNotFound if it no longer waits."""
        waiting = decided.waiting
        exchange_log = await self._views.waiting_log(waiting)
        with self._relay.claiming(waiting.id):
            await self._decide(decided, self._instance.id)
            self._note(decided)
            try:
                end = await self._until_stored(lambda: self._closing.close(waiting, STOPPED))
            except FencedOut:
                # Its end is stored already: show that one.
                await self._views.refresh(exchange_log)
            else:
                _log_end(waiting, end)
        return exchange_log

    async def _settle(
        self,
        decided: Decided,
        entry: AgentInScope,
        checkpoint: Checkpoint,
        tokens: Tokens | None,
        *,
        for_author: bool = False,
    ) -> ExchangeLog:
        waiting, decisions = decided.waiting, decided.decisions
        if any(map(is_refusal, decisions)):
            return await self._end(decided)
        rest = remaining(waiting, decisions)
        exchange_log = await self._views.waiting_log(waiting)
        with self._relay.claiming(waiting.id):
            await self._decide(decided, None if rest.requests else self._instance.id)
            self._note(decided)
            if not rest.requests:
                settled = [*waiting.decisions, *decisions]
                start = await self._continued(waiting, settled, entry, checkpoint, for_author=for_author)
                exchange_log.jump_to(next_epoch(waiting.last_seq))
                return self._launcher.launch(start, tokens, exchange_log)
        self._relay.publish(exchange_log)
        show_waiting(exchange_log, rest, waiting_seq(waiting, rest))
        return exchange_log

    def _note(self, decided: Decided) -> None:
        waiting = decided.waiting
        for decision in decided.decisions:
            self._kpi.exchanges.decided(decision.action)
            log_fields = {"exchange_id": waiting.id, "session_id": waiting.session_id, "user_id": decision.by}
            log.info("approval decided", extra={**log_fields, "action": decision.action, "tool": decision.name})

    async def _decide(self, decided: Decided, owner: str | None) -> None:
        """Store the decisions. Retried during an outage, because only the store's answer may have been lost."""
        token = uuid4().hex
        waiting, decisions, trail = decided.waiting, decided.decisions, decided.trail
        await self._until_stored(lambda: self._store.decide(waiting, decisions, owner, token, trail=trail))

    async def _until_stored(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """See `until_stored`; tries for half a lease, before another instance recovers the exchange."""
        wait = for_seconds(self._instance.lease_s / 2)
        return await until_stored(work, wait, self._kpi.dependencies.store_retried)

    async def _continued(
        self,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        entry: AgentInScope,
        checkpoint: Checkpoint,
        *,
        for_author: bool,
    ) -> ExchangeStart:
        session = await self._store.get_session(waiting.session_id)
        messages = await self._store.exchange_messages(waiting.id)
        if session is None or not messages:
            raise ExchangeNotFound
        assert checkpoint.state is not None, "a store gives no checkpoint without its state"
        resume_point = ResumePoint(
            state=checkpoint.state,
            decisions=decisions,
            stored=messages,
            first_block=waiting.last_seq,
            usage=waiting.usage,
            activities=await self._store.activities_of([waiting.id]),
        )
        return ExchangeStart(
            replace(waiting, owner=self._instance.id, decisions=list(decisions)),
            entry.agent,
            session,
            messages[0],
            resume_point,
            effective=entry.effective,
            for_author=for_author,
        )

    async def _checkpoint(self, waiting: ExchangeRecord) -> Checkpoint:
        checkpoint = await self._store.checkpoint(waiting.id)
        if checkpoint is None or checkpoint.state is None:
            raise CheckpointMissing
        return checkpoint


def _log_end(waiting: ExchangeRecord, end: ExchangeEnd) -> None:
    """Write the line that each exchange has at its end (see Settlement), for one that ends while it waits."""
    assert end.kpi is not None
    log_fields = {
        "request_id": waiting.request_id,
        "exchange_id": waiting.id,
        "session_id": waiting.session_id,
        "agent_id": waiting.agent_id,
    }
    log.info("exchange ended", extra={**log_fields, "status": str(end.status), "latency_ms": end.kpi.latency_ms})
