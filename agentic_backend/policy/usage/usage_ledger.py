"""UsageLedger: makes a priced UsageRecord of each model call, and stores those that no exchange stores.

An exchange of a session stores its records together with its messages (see Outbox). All others, such as those of
titles, modules, summaries and queries, wait here, and a task that the ledger owns stores them in batches, so that
nobody waits for it. They are lost if the process dies in that moment, or if the store stays away too long.

A call that runs for long has a record before it ends, which the one of its end replaces: a crash leaves it. Both take
the same way to the store, so they are stored in this order.

Where the provider tells no tokens, because the call was broken off or it counts none, they are estimated from what was
sent and what came. That is done only then: a call that ends as usual pays nothing for it.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from agentic_backend.backoff import backoff
from agentic_backend.errors import StoreUnavailable
from agentic_backend.kpi import Kpi
from agentic_backend.policy.prompt.token_counts import TokenCounts, tokens_of_bytes
from agentic_backend.policy.usage.budgets import Budgets
from agentic_backend.policy.usage.prices import Cost, Prices
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import Purpose, TrailRecord, UsageRecord
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord
from agentic_backend.streaming.model.model_calls import Asked, CallTokens, ModelCall, ModelCalls
from agentic_backend.streaming.transcode.drafts import CACHED_INPUT, CompleteDraft

log = logging.getLogger(__name__)

_WAITING_AT_MOST = 10_000
_BATCH = 200
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.2, 10.0
_CLOSING_S = 2.0
OUTPUT_TOKENS = 4_096
"""So many output tokens a call reserves of its payers' budgets if nothing limits them."""
SLOW_S = 2.5
"""As the objective `first_token` of docs/slo.md has it."""


@dataclass(frozen=True, slots=True)
class Payer:
    """Whose call of a model it is, and what it belongs to."""

    user_id: str
    groups: tuple[str, ...] = ()
    """Of which one pays (see `may_pay`)."""
    session_id: str | None = None
    exchange_id: str | None = None
    agent_id: str | None = None

    @classmethod
    def of(cls, exchange: ExchangeRecord) -> "Payer":
        policy = exchange.policy or ExchangePolicy()
        return cls(
            exchange.user_id,
            may_pay(policy.groups, policy.scope),
            exchange.session_id or None,
            exchange.id,
            exchange.agent_id,
        )


def may_pay(groups: Iterable[str], scope: Mapping[str, str]) -> tuple[str, ...]:
    """The groups of which one pays: the organisation of the scope, then the user's groups by the alphabet."""
    organisation = scope.get("organisation")
    return (*([organisation] if organisation else ()), *sorted(groups))


class UsageLedger:
    """One per process. `aclose` stores what waits, for a moment; the store must still be open then."""

    def __init__(self, store: Store, prices: Prices, kpi: Kpi, budgets: Budgets | None = None) -> None:
        self._store = store
        self.prices = prices
        self._kpi = kpi
        self.budgets = budgets or Budgets(store)
        """Told of what each call may cost, and of what it has cost."""
        self._counter = TokenCounts().of(None)
        """Approximate, because it counts in the event loop."""
        self._waiting: deque[UsageRecord] = deque()
        """The records that are to be stored, the oldest first."""
        self._storing: asyncio.Task[None] | None = None
        """Runs while records wait."""
        self._is_closed = False

    def begin(self, call_id: str, model: str, asked: Asked, payer: Payer, *, must: bool = False) -> None:
        """Reserve what a call that begins may cost of its payers' budgets, if they have any. From any thread.

        Raises BudgetExceeded if a budget is used up by what is known here, unless the call `must` begin.
        """
        group = self.budgets.paying_group(payer.groups)
        if not self.budgets.limit(payer.user_id, group):
            return
        most = OUTPUT_TOKENS if asked.most_output is None else asked.most_output
        tokens = CallTokens(self._input_of(asked), most)
        cost = self.prices.cost(model, tokens, self._store.now().date())
        self.budgets.reserve(call_id, payer.user_id, group, asked, cost, must=must)

    def record_of(self, call: ModelCall, payer: Payer) -> UsageRecord:
        """The record of a call that runs or ends now; counts the cost, which is known once it ends, in the metrics."""
        at = self._store.now() - timedelta(seconds=call.duration_s)
        tokens = call.tokens or self._estimated(call)
        is_estimated = call.tokens is None and tokens is not None
        cost = None if tokens is None else self.prices.cost(call.model, tokens, at.date())
        record = UsageRecord(
            id=call.id,
            at=at,
            day=at.date().isoformat(),
            user_id=payer.user_id,
            group=self.budgets.paying_group(payer.groups),
            session_id=payer.session_id,
            exchange_id=payer.exchange_id,
            agent_id=payer.agent_id,
            purpose=call.purpose,
            model=call.model,
            input_tokens=None if tokens is None else tokens.input,
            output_tokens=None if tokens is None else tokens.output,
            cost=None if cost is None else cost.amount,
            currency=None if cost is None else cost.currency,
            priced_on=None if cost is None else cost.priced_on.isoformat(),
            estimated=is_estimated or None,
        )
        if cost is not None and not call.is_running:
            self._kpi.models.cost(call.model, cost.currency, cost.amount, is_estimated=is_estimated)
        self.budgets.add(record, is_running=call.is_running)
        return record

    def _estimated(self, call: ModelCall) -> CallTokens | None:
        """The tokens of a call whose provider has told none; None if it has done nothing for it."""
        if call.asked is None:
            return None
        if call.is_running and call.asked.input_tokens is None:
            # Only a crash leaves this record, and without a budget that is not worth the count.
            return None
        return CallTokens(self._input_of(call.asked), tokens_of_bytes(call.output_bytes))

    def _input_of(self, asked: Asked) -> int:
        if asked.input_tokens is None:
            asked.input_tokens = self._counter.of_call(asked.messages, asked.tools)
        return asked.input_tokens

    def priced(self, draft: CompleteDraft) -> CompleteDraft:
        """`draft` with what its model call has cost in its metadata's extras, as `cost`; as it is without a price."""
        metadata = draft.message.metadata
        usage = metadata.token_usage
        if usage is None or metadata.model is None:
            return draft
        cached = metadata.extras.get(CACHED_INPUT, 0)
        tokens = CallTokens(usage.input_tokens or 0, usage.output_tokens or 0, cached)
        cost = self.prices.cost(metadata.model, tokens, self._store.now().date())
        if cost is None:
            return draft
        extras = {**metadata.extras, "cost": {"amount": cost.amount, "currency": cost.currency}}
        return draft.changed(metadata=metadata.model_copy(update={"extras": extras}))

    def keep(self, records: Sequence[TrailRecord]) -> None:
        """Store the UsageRecords among `records` soon, in the background. After `aclose` they are lost, and counted."""
        self._waiting.extend(record for record in records if isinstance(record, UsageRecord))
        if self._is_closed:
            self._lose_waiting()
        if (lost := len(self._waiting) - _WAITING_AT_MOST) > 0:
            for _ in range(lost):
                self._waiting.popleft()
            log.error("usage records are lost: too many wait for the store", extra={"lost": lost})
            self._kpi.models.usage_lost(lost)
        if self._waiting and self._storing is None:
            self._storing = asyncio.create_task(self._store_all(), context=Context())

    def count(self, call: ModelCall, payer: Payer) -> None:
        """Record a call that has ended, and count it in the metrics."""
        self.keep([self.record_of(call, payer)])
        count_call(self._kpi, call)

    def cost(self, model: str, tokens: CallTokens) -> Cost | None:
        """What a call of the model would cost today; None if no price holds."""
        return self.prices.cost(model, tokens, self._store.now().date())

    async def ask(
        self, model: BaseChatModel, messages: Sequence[BaseMessage], payer: Payer, purpose: Purpose
    ) -> AIMessage:
        """Ask `model`, and record its calls, also if it fails or is cancelled. Raises what the model raises."""

        def keep(call: ModelCall) -> None:
            self.keep([self.record_of(call, payer)])

        def begin(call_id: str, name: str, asked: Asked) -> None:
            # Safety, and the answers that follow, may depend on it.
            self.begin(call_id, name, asked, payer, must=True)

        calls = ModelCalls(keep, purpose, begin)
        config = RunnableConfig(callbacks=[calls])
        try:
            answer: Any = await model.ainvoke(list(messages), config)
        finally:
            # LangChain tells of no end if a call that does not stream is cancelled.
            unended = calls.unended
            # Else it is told of as running after its end.
            calls.cut()
            for call in unended:
                keep(call)
            for call in (*calls.ended, *unended):
                count_call(self._kpi, call)
        assert isinstance(answer, AIMessage)
        return answer

    async def aclose(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                while (storing := self._storing) is not None:
                    await asyncio.wait({storing})
        self._is_closed = True
        if (storing := self._storing) is not None:
            storing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await storing
        self._lose_waiting()

    def _lose_waiting(self) -> None:
        if self._waiting:
            log.error("usage records are lost: the server stops", extra={"lost": len(self._waiting)})
            self._kpi.models.usage_lost(len(self._waiting))
            self._waiting.clear()

    async def _store_all(self) -> None:
        delays = backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        try:
            while self._waiting:
                batch = [self._waiting[place] for place in range(min(_BATCH, len(self._waiting)))]
                try:
                    await self._store.add_trail(batch)
                except StoreUnavailable:
                    await asyncio.sleep(next(delays))
                    self._kpi.dependencies.store_retried()
                    continue
                except Exception:
                    # The boundary of the task: records that the store can't hold must not keep back later ones.
                    log.exception("usage records are lost: the store refuses them", extra={"lost": len(batch)})
                    self._kpi.models.usage_lost(len(batch))
                delays = backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
                for record in batch:
                    # The oldest may have made room for others meanwhile.
                    if self._waiting and self._waiting[0] is record:
                        self._waiting.popleft()
        finally:
            self._storing = None


def count_call(kpi: Kpi, call: ModelCall) -> None:
    """Count a call that has ended, or that its run ends without, in the metrics; a slow one is told in the log."""
    if call.first_chunk_s is not None and call.first_chunk_s > SLOW_S:
        told = {"model": call.requested or call.model, "purpose": call.purpose}
        log.warning("model answers late", extra={**told, "first_chunk_ms": round(call.first_chunk_s * 1000)})
    kpi.models.called(
        call.provider,
        call.requested,
        duration_s=call.duration_s,
        first_chunk_s=call.first_chunk_s,
        tokens=call.tokens,
        error=call.error,
        is_embedding=call.purpose == "embedding",
    )
