"""Where an exchange writes its messages: the store, or nowhere in query mode. Both place them by rank."""

import logging
from collections.abc import Sequence
from typing import Protocol

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.messages import ChatMessage, MessageDraft, Session, place
from agentic_backend.sessions.instance import Instance
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, FencedOut, Pause, Store

log = logging.getLogger(__name__)


class Ledger(Protocol):
    @property
    def session(self) -> Session | None:
        """The session as of the last write; None in query mode."""
        ...

    async def write(
        self, drafts: Sequence[MessageDraft], end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None
    ) -> list[ChatMessage]:
        """Place the messages behind the last ones, and keep the `checkpoint` that is taken behind them.

        Raises FencedOut, and has written nothing then; or StoreUnavailable, and the next write begins with the same
        messages.
        """
        ...

    async def set_waiting(self, pause: Pause) -> None:
        """The exchange waits for a person, and is nobody's. Raises as `write` does."""
        ...

    async def claim(self) -> None:
        """The exchange, which waits, is this writer's again. Raises ApprovalNotFound where it no longer waits."""
        ...


class StoredLedger:
    """The ledger of one exchange of a session, which `instance` owns until its end, or a pause, is written."""

    def __init__(self, store: Store, session: Session, exchange_id: str, instance: Instance) -> None:
        self._store = store
        self._exchange_id = exchange_id
        self._session = session
        self._instance = instance
        self._unsure = False

    @property
    def session(self) -> Session | None:
        return self._session

    @property
    def _fence(self) -> Fence:
        session = self._session
        return Fence(session.id, self._exchange_id, session.next_rank, self._instance.id, session.updated_at)

    async def write(
        self, drafts: Sequence[MessageDraft], end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None
    ) -> list[ChatMessage]:
        stored = await self._stored_unheard(len(drafts), end) if self._unsure else []
        if self._session.active_exchange_id != self._exchange_id:
            # The last write brought the end, and only its answer was lost.
            self._unsure = False
            return stored
        self._unsure = True
        written = await self._store.append(self._fence, drafts[len(stored) :], end, checkpoint)
        self._unsure = False
        self._session = written.session
        return stored + written.messages

    async def _stored_unheard(self, limit: int, end: ExchangeEnd | None) -> list[ChatMessage]:
        """The messages of the last write, where the store has them and only its answer was lost."""
        session = await self._store.get_session(self._session.id)
        if session is None:
            raise FencedOut
        if session.active_exchange_id != self._exchange_id:
            exchange = await self._store.get_exchange(self._exchange_id)
            if end is None or exchange is None or exchange.status is not end.status:
                raise FencedOut
        messages = await self._store.messages_after(session.id, self._session.next_rank - 1, limit)
        self._session = session
        return messages

    async def set_waiting(self, pause: Pause) -> None:
        await self._store.set_waiting(self._fence, pause)

    async def claim(self) -> None:
        waiting = await self._store.get_exchange(self._exchange_id)
        if waiting is None:
            raise FencedOut
        await self._store.decide(waiting, (), self._instance.id)


class QueryLedger:
    """The ledger of a query: ranks from 0 on, and only its KPIs are stored."""

    session = None

    def __init__(self, store: Store, exchange_id: str) -> None:
        self._store = store
        self._exchange_id = exchange_id
        self._next_rank = 0

    async def write(
        self, drafts: Sequence[MessageDraft], end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None
    ) -> list[ChatMessage]:
        messages = place(
            list(drafts),
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
