"""Where an exchange writes its messages: the store, or nowhere in query mode. Both place them by rank."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.messages import ChatMessage, Session, place
from agentic_backend.sessions.instance import Instance
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, FencedOut, Pause, Store
from agentic_backend.streaming.drafts import CompleteDraft

log = logging.getLogger(__name__)


class Ledger(Protocol):
    @property
    def session(self) -> Session | None:
        """The session as of the last write; None in query mode."""
        ...

    async def write(
        self, drafts: Sequence[CompleteDraft], end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None
    ) -> list[ChatMessage]:
        """Place the messages behind the last ones, and keep the `checkpoint` that is taken behind them.

        Raises FencedOut, and has written nothing then; or StoreUnavailable: the next write begins with the same
        messages, and has the same `end`, where there was one.
        """
        ...

    async def set_waiting(self, pause: Pause) -> None:
        """The exchange waits for a person, and is nobody's. Raises as `write` does, and can be repeated as that."""
        ...

    async def claim(self) -> None:
        """The exchange, which waits, is this writer's again; to be repeated where the store was unavailable.

        Raises ApprovalNotFound where it no longer waits.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Write:
    drafts: Sequence[CompleteDraft]
    end: ExchangeEnd | None
    checkpoint: Checkpoint | None
    token: str = field(default_factory=lambda: uuid4().hex)


class StoredLedger:
    """The ledger of one exchange of a session, which `instance` owns until its end, or a pause, is written.

    A write whose answer was lost is repeated under its token before anything else is written: the store knows whether
    it counts already. What it brought is kept until a whole write succeeds.
    """

    def __init__(self, store: Store, session: Session, exchange_id: str, instance: Instance) -> None:
        self._store = store
        self._exchange_id = exchange_id
        self._session = session
        self._instance = instance
        self._unheard: _Write | None = None
        """The write that the store has not answered."""
        self._stored: list[ChatMessage] = []
        """The messages that are stored of a write whose rest is not."""
        self._has_ended = False
        self._pause_token, self._claim_token = uuid4().hex, uuid4().hex

    @property
    def session(self) -> Session | None:
        return self._session

    @property
    def _fence(self) -> Fence:
        session = self._session
        return Fence(session.id, self._exchange_id, session.next_rank, self._instance.id, session.updated_at)

    async def write(
        self, drafts: Sequence[CompleteDraft], end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None
    ) -> list[ChatMessage]:
        if self._unheard is not None:
            await self._write(self._unheard)
        rest = drafts[len(self._stored) :]
        if not self._has_ended and (rest or end is not None):
            await self._write(_Write(rest, end, checkpoint))
        stored, self._stored = self._stored, []
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
                token=write.token,
            )
        except ValueError:
            # Refused as what can't be stored: nothing is in doubt.
            self._unheard = None
            raise
        if len(written.messages) != len(write.drafts):
            # It was stored, and is being deleted with its session.
            raise FencedOut
        self._unheard = None
        self._stored += written.messages
        self._has_ended = write.end is not None
        self._session = written.session

    async def set_waiting(self, pause: Pause) -> None:
        await self._store.set_waiting(self._fence, pause, self._pause_token)

    async def claim(self) -> None:
        waiting = await self._store.get_exchange(self._exchange_id)
        if waiting is None:
            raise FencedOut
        await self._store.decide(waiting, (), self._instance.id, self._claim_token)


class QueryLedger:
    """The ledger of a query: ranks from 0 on, and only its KPIs are stored."""

    session = None

    def __init__(self, store: Store, exchange_id: str) -> None:
        self._store = store
        self._exchange_id = exchange_id
        self._next_rank = 0

    async def write(
        self, drafts: Sequence[CompleteDraft], end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None
    ) -> list[ChatMessage]:
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
                # Nobody's answer is worth less than its KPIs.
                log.warning("the KPIs of a query are lost", extra={"exchange_id": self._exchange_id})
        return messages

    async def set_waiting(self, pause: Pause) -> None:
        raise AssertionError("a query that wants a person's answer fails before it waits")

    async def claim(self) -> None:
        raise AssertionError("a query never waits")
