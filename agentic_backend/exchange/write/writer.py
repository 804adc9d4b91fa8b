"""Writers of an exchange's messages: StoreWriter stores them, QueryWriter does not. Both assign ranks."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from agentic_backend.errors import StoreUnavailable
from agentic_backend.exchange.instance import Instance
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, FencedOut, Pause, Store
from agentic_backend.stores.protocol.trail import TrailRecord
from agentic_backend.stores.records import MessageRecord, SessionRecord, place
from agentic_backend.streaming.transcode.drafts import CompleteDraft

log = logging.getLogger(__name__)


class ExchangeWriter(Protocol):
    @property
    def session(self) -> SessionRecord | None:
        """The session as of the last write; None in query mode."""
        ...

    async def write(
        self,
        drafts: Sequence[CompleteDraft],
        end: ExchangeEnd | None = None,
        checkpoint: Checkpoint | None = None,
        trail: Sequence[TrailRecord] = (),
    ) -> list[MessageRecord]:
        """Append the messages, and keep the `checkpoint` that was taken after them, and the records of `trail`.

        Raises FencedOut, and has written nothing but `trail` then; or StoreUnavailable: the next call must begin with
        the same messages and the same records, and pass the same `end`, if there was one.
        """
        ...

    async def set_waiting(self, pause: Pause) -> None:
        """Store that the exchange waits for a person and has no owner. Raises as `write` does; can be repeated."""
        ...

    async def claim(self) -> None:
        """Take the waiting exchange back for this writer. Can be repeated if the store was unavailable.

        Raises ApprovalNotFound if it no longer waits, FencedOut if it was deleted.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Write:
    drafts: Sequence[CompleteDraft]
    end: ExchangeEnd | None
    checkpoint: Checkpoint | None
    trail: Sequence[TrailRecord]
    token: str = field(default_factory=lambda: uuid4().hex)


class StoreWriter:
    """The writer of one exchange of a session. `instance` owns the exchange until its end or a pause is written.

    A write without an answer is repeated under its token before any other write: by the token the store knows whether
    it was applied. Its messages are kept until a whole write succeeds.
    """

    def __init__(self, store: Store, session: SessionRecord, exchange_id: str, instance: Instance) -> None:
        self._store = store
        self._exchange_id = exchange_id
        self._session = session
        """The session as of the last answered write."""
        self._instance = instance
        self._unheard: _Write | None = None
        """The write that the store has not answered."""
        self._stored: list[MessageRecord] = []
        """The stored messages of a batch that is not completely stored yet."""
        self._stored_trail = 0
        """The number of the records of that batch that are stored."""
        self._has_ended = False
        """Whether the end is stored: a repeated write then has nothing left to store."""
        self._pause_token, self._claim_token = uuid4().hex, uuid4().hex
        """The tokens of the one pause and of the one claim after it; all retries use the same."""

    @property
    def session(self) -> SessionRecord | None:
        return self._session

    @property
    def _fence(self) -> Fence:
        session = self._session
        return Fence(session.id, self._exchange_id, session.next_rank, self._instance.id, session.updated_at)

    async def write(
        self,
        drafts: Sequence[CompleteDraft],
        end: ExchangeEnd | None = None,
        checkpoint: Checkpoint | None = None,
        trail: Sequence[TrailRecord] = (),
    ) -> list[MessageRecord]:
        if self._unheard is not None:
            await self._write(self._unheard)
        rest, more = drafts[len(self._stored) :], trail[self._stored_trail :]
        if not self._has_ended and (rest or end is not None):
            await self._write(_Write(rest, end, checkpoint, more))
        elif more:
            await self._store.add_trail(more)
        stored, self._stored, self._stored_trail = self._stored, [], 0
        return stored

    async def _write(self, write: _Write) -> None:
        self._unheard = write
        try:
            written = await self._store.append(
                self._fence,
                [draft.message for draft in write.drafts],
                write.end,
                write.checkpoint,
                blocks=[draft.block for draft in write.drafts],
                trail=write.trail,
                token=write.token,
            )
        except ValueError:
            # The store refused it and has written nothing.
            self._unheard = None
            raise
        if len(written.messages) != len(write.drafts):
            # It was stored, but is being deleted with its session.
            raise FencedOut
        self._unheard = None
        self._stored += written.messages
        self._stored_trail += len(write.trail)
        self._has_ended = write.end is not None
        self._session = written.session

    async def set_waiting(self, pause: Pause) -> None:
        await self._store.set_waiting(self._fence, pause, self._pause_token)

    async def claim(self) -> None:
        waiting = await self._store.get_exchange(self._exchange_id)
        if waiting is None:
            raise FencedOut
        await self._store.decide(waiting, (), self._instance.id, self._claim_token)


class QueryWriter:
    """The writer of a query: ranks from 0 on, and only its KPIs and its usage are stored."""

    session = None

    def __init__(self, store: Store, ledger: UsageLedger, exchange_id: str, next_rank: int = 0) -> None:
        self._store = store
        self._ledger = ledger
        self._exchange_id = exchange_id
        self._next_rank = next_rank
        """The rank of the next message."""

    async def write(
        self,
        drafts: Sequence[CompleteDraft],
        end: ExchangeEnd | None = None,
        checkpoint: Checkpoint | None = None,
        trail: Sequence[TrailRecord] = (),
    ) -> list[MessageRecord]:
        self._ledger.keep(trail)
        messages = place(
            [draft.message for draft in drafts],
            session_id=None,
            exchange_id=self._exchange_id,
            next_rank=self._next_rank,
            at=self._store.now(),
        )
        self._next_rank += len(messages)
        if end is not None and end.kpi is not None:
            try:
                await self._store.record_kpi(end.kpi)
            except StoreUnavailable:
                # The answer is complete, and is given even if its KPIs can't be stored.
                log.warning("KPIs of a query lost", extra={"exchange_id": self._exchange_id})
        return messages

    async def set_waiting(self, pause: Pause) -> None:
        raise AssertionError("a query that wants a person's answer fails before it waits")

    async def claim(self) -> None:
        raise AssertionError("a query never waits")
