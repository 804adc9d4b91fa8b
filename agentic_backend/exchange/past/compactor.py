"""Compactor: keeps the histories of sessions within their chat profiles. One per process.

After an exchange, a history that has become too long is compacted beside the user's thinking time, which has begun once
the session stays idle for a moment: a model summarises the older turns, and the newest half stays. The summary is
stored with the session and stands for the older messages, which stay in the store, in every later exchange, on every
instance, until the next compaction. If the model fails, the older turns leave the context without a summary; the next
compaction gives them to the model again.

The relay owns the tasks, and cancels and awaits them when the process ends. A summary counts only if the session has
not changed since it was read, so a compaction is abandoned once the session goes on, and of two instances one wins.
A session whose exchange runs or waits is never compacted, except by that exchange itself before its agent starts.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import uuid4

from cachetools import LRUCache

from agentic_backend.agents.models.chat_models import DEFAULT, ChatModels
from agentic_backend.agents.models.output_limit import with_output_limit
from agentic_backend.config.topics.chat_profiles import ChatProfile, CurrentProfiles
from agentic_backend.errors import AgenticError
from agentic_backend.exchange.past.history import restore_exchange
from agentic_backend.kpi import Kpi
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.policy.prompt.compaction import Measure, Turn, divided, request, shortened
from agentic_backend.policy.prompt.token_counts import TokenCounter, TokenCounts, context_tokens
from agentic_backend.policy.session_log import history_compacted
from agentic_backend.policy.usage.usage_ledger import Payer, UsageLedger
from agentic_backend.protocol.messages import SessionState
from agentic_backend.protocol.parts import text_of
from agentic_backend.relay.first_tokens import wait_for_first_tokens
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import SummaryRecord, TrailQuery
from agentic_backend.stores.records import ExchangeRecord, MessageRecord, SessionRecord
from agentic_backend.system_errors import summary_of

log = logging.getLogger(__name__)

# A session that finds no place is compacted after its next exchange.
_AT_ONCE, _AT_ONCE_OF_USER = 32, 4
# What is read of a history to compact: its last turns.
_MOST_TURNS, _MOST_BYTES = 400, 2 * 1024 * 1024
_MEASURED = 4_096
# Nothing is read for who asks again at once, in seconds: that compaction would be abandoned.
_PAUSE_S = 0.25
# So many messages, of so many characters, are counted in the event loop; more in a thread.
_FEW, _SHORT = 64, 256 * 1024
_CACHED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Measured:
    """The size of a session's history when its next rank was `next_rank`, after the summary with this id."""

    next_rank: int
    summary_id: str | None
    reset_rank: int | None
    measure: Measure


@dataclass(frozen=True, slots=True)
class _Past:
    """A session's history: the summary, and the turns after it. Without a summary `text` is empty."""

    from_rank: int
    """The first rank that the summary stands for, or would."""
    text: str = field(repr=False)
    tokens: int
    """The tokens of `text`."""
    dropped: Sequence[Turn]
    """The turns before `turns` that `text` says nothing of."""
    turns: Sequence[Turn]

    @property
    def measure(self) -> Measure:
        """The size of what an agent would be given."""
        return Measure(len(self.turns), self.tokens + sum(turn.tokens for turn in self.turns))


class Compactor:
    def __init__(
        self,
        store: Store,
        relay: Relay,
        models: ChatModels,
        ledger: UsageLedger,
        kpi: Kpi,
        counts: TokenCounts,
        profiles: CurrentProfiles,
        timeout_s: float,
    ) -> None:
        self._store = store
        self._relay = relay
        self._models = models
        self._ledger = ledger
        self._kpi = kpi
        self._profiles = profiles
        self.timeout_s = timeout_s
        """How long a model may take to summarise, in seconds."""
        self._counter: TokenCounter = counts.of(None)
        """Approximate, because it counts in the event loop."""
        self._measured: LRUCache[str, _Measured] = LRUCache(_MEASURED)
        """By session id, so that a history is not read after each exchange."""
        self._summaries: LRUCache[str, SummaryRecord] = LRUCache(_CACHED_BYTES, getsizeof=_size)
        """The last known summary of each session, by session id; it counts if the session still names it."""
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """The user's id and the task of each session that is being compacted after an exchange, by session id."""

    async def summary_of(self, session: SessionRecord | None) -> SummaryRecord | None:
        """The summary that stands for the session's earlier messages, if there is one. Raises StoreUnavailable."""
        if session is None or session.summary_id is None:
            return None
        found = self._summaries.get(session.id)
        if found is None or found.id != session.summary_id:
            page = await self._store.trail(TrailQuery(SummaryRecord, {"id": session.summary_id}, limit=1))
            found = next(iter(page.records), None)
            if found is not None:
                self._keep(found)
        return found

    def exchange_ended(
        self, exchange: ExchangeRecord, profile_name: str, session: SessionRecord, rows: Sequence[MessageRecord]
    ) -> None:
        """Compact the session in the background if its history is too long; `rows` are the ended exchange's messages.

        `session` is as the exchange left it.
        """
        profile = self._profiles().named(profile_name)
        if not profile.compacts:
            return
        before = self._measured.get(session.id)
        first_rank = rows[0].rank
        if first_rank == 0:
            before = _Measured(0, session.summary_id, session.reset_rank, Measure(0, 0))
        known = (first_rank, session.summary_id, session.reset_rank)
        is_known = before is not None and (before.next_rank, before.summary_id, before.reset_rank) == known
        if before is not None and is_known and not _is_long(rows):
            tokens = before.measure.tokens + self._turn(rows).tokens
            measure = Measure(before.measure.turns + 1, tokens)
            self._measured[session.id] = replace(before, next_rank=session.next_rank, measure=measure)
            if not measure.exceeds(profile):
                return
        self._begin(session, profile_name, Payer.of(exchange))

    def abandon(self, session_id: str) -> None:
        """End a compaction in the background: the session goes on."""
        if self.is_busy(session_id):
            self._running[session_id][1].cancel()

    def forget(self, user_id: str) -> None:
        """Let go of what this process holds of the user's sessions."""
        mine = [session_id for session_id, summary in self._summaries.items() if summary.user_id == user_id]
        for session_id in {*mine, *(one for one, (owner, _) in self._running.items() if owner == user_id)}:
            self.forget_session(session_id)

    def forget_session(self, session_id: str) -> None:
        self.abandon(session_id)
        self._summaries.pop(session_id, None)
        self._measured.pop(session_id, None)

    def is_busy(self, session_id: str) -> bool:
        """Whether the session is being compacted in the background."""
        return session_id in self._running

    async def compact(
        self, session: SessionRecord, profile_name: str, payer: Payer, *, must: bool = False
    ) -> SummaryRecord | None:
        """Compact the session's history if it is too long for the profile or `must` be shorter; None if it is not.

        None also if the session has changed since it was read, or if the profile has no limit. Raises StoreUnavailable.
        """
        profile = self._profiles().named(profile_name)
        if not profile.compacts:
            return None
        past = await self._past(session)
        measure = past.measure
        self._measured[session.id] = _Measured(session.next_rank, session.summary_id, session.reset_rank, measure)
        if len(past.turns) < 2 or not (must or measure.exceeds(profile)):
            return None
        older, newest = divided(past.turns)
        leaving = [*past.dropped, *older]
        text, is_left = past.text, True
        if profile.include_summary_in_context:
            text, is_left = await self._summarised(past.text, leaving, profile, payer)
        # Asks with another profile may still want the text.
        tokens = self._counter.of_text(text) if text and profile.include_summary_in_context else 0
        summary = SummaryRecord(
            id=uuid4().hex,
            at=self._store.now(),
            session_id=session.id,
            user_id=session.user_id,
            from_rank=past.from_rank,
            to_rank=newest[0].first_rank,
            text=text,
            tokens=tokens,
            model=(profile.summarization_model or DEFAULT) if profile.include_summary_in_context else "",
            chat_profile=profile_name,
            turn_number=session.turn_count - (session.active_exchange_id is not None),
            turns=len(older),
            tokens_before=measure.tokens,
            tokens_after=tokens + sum(turn.tokens for turn in newest),
            dropped_from=leaving[0].first_rank if is_left else None,
        )
        return await self._kept(summary, session, len(newest))

    async def _past(self, session: SessionRecord) -> _Past:
        former = await self.summary_of(session)
        from_rank = session.reset_rank or 0
        to_rank = from_rank if former is None else former.to_rank
        read_from = to_rank if former is None or former.dropped_from is None else former.dropped_from
        # An exchange has at least one message.
        count = min(_MOST_TURNS, max(1, session.next_rank - read_from))
        rows = await self._store.last_exchanges(session.id, count, _MOST_BYTES)
        turns = await asyncio.to_thread(self._turns, [row for row in rows if row.rank >= read_from])
        return _Past(
            from_rank=from_rank if former is None else former.from_rank,
            text="" if former is None else former.text,
            tokens=0 if former is None else former.tokens,
            dropped=[turn for turn in turns if turn.first_rank < to_rank],
            turns=[turn for turn in turns if turn.first_rank >= to_rank],
        )

    async def _kept(self, summary: SummaryRecord, session: SessionRecord, turns: int) -> SummaryRecord | None:
        """The summary, once it is stored; None if the session has changed since."""
        if await self._store.keep_summary(summary, session) is None:
            self._kpi.sessions.compacted("abandoned")
            return None
        self._keep(summary)
        measure = Measure(turns, summary.tokens_after)
        self._measured[session.id] = _Measured(session.next_rank, summary.id, session.reset_rank, measure)
        self._kpi.sessions.compacted(_outcome(summary))
        history_compacted(session, summary)
        return summary

    def _begin(self, session: SessionRecord, profile_name: str, payer: Payer) -> None:
        of_user = Counter(user_id for user_id, _ in self._running.values())[session.user_id]
        is_idle = session.state is SessionState.ACTIVE and session.active_exchange_id is None
        if self._relay.draining or not is_idle or self.is_busy(session.id):
            return
        if len(self._running) >= _AT_ONCE or of_user >= _AT_ONCE_OF_USER:
            self._kpi.sessions.compacted("deferred")
            return
        task = self._relay.spawn(self._compact(session, profile_name, payer))
        self._running[session.id] = session.user_id, task
        task.add_done_callback(lambda _: self._running.pop(session.id, None))

    async def _compact(self, session: SessionRecord, profile_name: str, payer: Payer) -> None:
        try:
            await asyncio.sleep(_PAUSE_S)
            await wait_for_first_tokens(self._relay)
            await self.compact(session, profile_name, payer)
        except asyncio.CancelledError:
            self._kpi.sessions.compacted("abandoned")
            raise
        except AgenticError as error:
            # The store is away: the next exchange tries again.
            self._kpi.sessions.compacted("failed")
            log.warning("session not compacted", extra={"session_id": session.id, "code": error.code})

    async def _summarised(
        self, former: str, turns: Sequence[Turn], profile: ChatProfile, payer: Payer
    ) -> tuple[str, bool]:
        """The summary of `former` and `turns`; `former` and True if the model fails."""
        try:
            most, count = profile.summarization_max_tokens, self._counter.of_text
            model = with_output_limit(self._models.get(profile.summarization_model), most)
            asked = await asyncio.to_thread(request, former, turns, profile, context_tokens(model))
            async with served_timeout(self.timeout_s):
                answer = await self._ledger.ask(model, asked, payer, "summary")
            # In a thread, because a model may answer with any length.
            text = await asyncio.to_thread(lambda: shortened(answer.text, most, count))
        except Exception as error:
            # A provider may raise anything. Its text may quote the conversation.
            log.warning("history not summarised", extra={"session_id": payer.session_id, "error": summary_of(error)})
            return former, True
        return text or former, not text

    def _turns(self, rows: Sequence[MessageRecord]) -> list[Turn]:
        of_exchange: dict[str, list[MessageRecord]] = {}
        for row in rows:
            of_exchange.setdefault(row.exchange_id, []).append(row)
        return [self._turn(own) for own in of_exchange.values()]

    def _turn(self, rows: Sequence[MessageRecord]) -> Turn:
        messages = restore_exchange(rows)
        return Turn(rows[0].rank, messages, sum(map(self._counter.of_message, messages)))

    def _keep(self, summary: SummaryRecord) -> None:
        # A summary that is larger than the whole cache is read each time.
        with suppress(ValueError):
            self._summaries[summary.session_id] = summary


def _is_long(rows: Sequence[MessageRecord]) -> bool:
    """Whether counting the tokens of `rows` takes more than a moment of the event loop."""
    return len(rows) > _FEW or sum(len(text_of(row.model_parts or row.parts)) for row in rows) > _SHORT


def _outcome(summary: SummaryRecord) -> str:
    if not summary.is_wanted:
        return "left_out"
    return "summarised" if summary.dropped_from is None else "dropped"


def _size(summary: SummaryRecord) -> int:
    return 4 * len(summary.text) + 1_000
