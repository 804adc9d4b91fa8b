"""Builds HookContexts: what modules are told of an exchange, or of a session beside any exchange."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.auth.user import User
from agentic_backend.policy.hook_context import (
    ConversationFacts,
    CurrentMessage,
    HookContext,
    Point,
    RequestFacts,
    ResponseFacts,
    ScopeFacts,
    SessionFacts,
    ToolFacts,
    UserFacts,
)
from agentic_backend.policy.hooks.decided_words import texts_of
from agentic_backend.policy.usage.usage_ledger import Payer, may_pay
from agentic_backend.protocol.messages import ChatMessage, SessionState, utc_now
from agentic_backend.protocol.parts import Part
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord, SessionRecord

# How much of the past modules are told: exchanges, and bytes of their messages.
_EXCHANGES, _BYTES = 20, 256 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose text modules look at, and where it was said."""

    request_id: str
    user: UserFacts
    scope: ScopeFacts
    agent: AgentSettings
    session: SessionRecord | None
    """None in query mode."""
    is_new: bool = False
    """Whether the session is not stored yet."""
    exchange_id: str | None = None
    """None for what happens to a session beside its exchanges."""
    rank: int | None = None
    """The rank of the user's message, as far as it is known."""
    started_at: datetime = field(default_factory=utc_now)
    scope_ids: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_exchange(
        cls,
        exchange: ExchangeRecord,
        agent: AgentSettings,
        session: SessionRecord | None,
        scope: ScopeFacts,
        *,
        is_new: bool = False,
    ) -> "Subject":
        policy = exchange.policy or ExchangePolicy()
        user = UserFacts(exchange.user_id, policy.name, policy.email, frozenset(policy.roles), frozenset(policy.groups))
        return cls(
            exchange.request_id,
            user,
            scope,
            agent,
            session,
            is_new,
            exchange.id,
            exchange.first_rank,
            exchange.started_at,
            tuple(policy.scope.items()),
        )

    @classmethod
    def of_session(
        cls,
        session: SessionRecord,
        user: User | None,
        agent: AgentSettings,
        scope: ScopeFacts,
        scope_ids: Mapping[str, str],
    ) -> "Subject":
        """`user` is None where the server itself does something to the session."""
        told = (
            UserFacts(user.id, user.name, user.email, user.roles, user.groups)
            if user is not None
            else UserFacts(session.user_id, "")
        )
        ids = tuple(scope_ids.items())
        return cls("", told, scope, agent, session, started_at=session.created_at, scope_ids=ids)

    @property
    def session_id(self) -> str | None:
        return self.session.id if self.session is not None else None

    @property
    def payer(self) -> Payer:
        groups = may_pay(self.user.groups, dict(self.scope_ids))
        return Payer(self.user.id, groups, self.session_id, self.exchange_id, self.agent.id)

    @property
    def log_fields(self) -> dict[str, object]:
        ids = {"request_id": self.request_id, "exchange_id": self.exchange_id, "session_id": self.session_id}
        return {**ids, "agent_id": self.agent.id}


class HookContexts:
    """The contexts of one subject. The session's messages are read once, for the first module that reads them."""

    def __init__(self, store: Store, subject: Subject) -> None:
        self._store = store
        self._subject = subject
        self._base = self._build()
        self._earlier: _Earlier | None = None
        """What was said in the session, once it is read."""
        self._reading = asyncio.Lock()

    async def at(
        self,
        point: Point,
        parts: Sequence[Part] | None = None,
        response: ResponseFacts | None = None,
        *,
        reads_messages: bool = False,
    ) -> HookContext:
        """The context for one call; `parts` are those of the user's message.

        Raises StoreUnavailable if it `reads_messages`.
        """
        if reads_messages and self._earlier is None:
            async with self._reading:
                if self._earlier is None:
                    self._earlier = await self._said_earlier()
        subject = self._subject
        current = None
        if parts is not None and subject.exchange_id is not None:
            copies = tuple(part.model_copy(deep=True) for part in parts)
            current = CurrentMessage(subject.exchange_id, subject.rank, copies)
        earlier = self._earlier if reads_messages and self._earlier is not None else _Earlier(None)
        base = self._base
        return replace(
            base,
            # Copies, which no other call is given.
            user=replace(base.user),
            scope=base.scope.copied(),
            tool=replace(base.tool),
            session=replace(base.session),
            request=RequestFacts(subject.request_id, point, self._store.now()),
            conversation=ConversationFacts(current, earlier.messages, earlier.decided),
            response=response,
        )

    def _build(self) -> HookContext:
        subject = self._subject
        agent, session = subject.agent, subject.session
        return HookContext(
            request=RequestFacts(subject.request_id, Point.BEFORE_AI, self._store.now()),
            user=subject.user,
            scope=subject.scope,
            tool=ToolFacts(agent.id, agent.name, agent.type, tuple(agent.tags), agent.model_dump(mode="json")),
            session=SessionFacts(
                subject.session_id,
                session.state if session is not None else SessionState.ACTIVE,
                session.created_at if session is not None else subject.started_at,
                session.message_count if session is not None else 0,
            ),
            conversation=ConversationFacts(None),
        )

    async def _said_earlier(self) -> "_Earlier":
        session = self._subject.session
        if session is None or self._subject.is_new or session.next_rank == 0:
            return _Earlier(())
        rows = [
            row
            for row in await self._store.last_exchanges(session.id, _EXCHANGES, _BYTES)
            if row.exchange_id != self._subject.exchange_id
        ]
        if not rows:
            return _Earlier(())
        page = await self._store.exchanges_from(session.id, rows[0].rank, _EXCHANGES, _BYTES)
        decided = [
            text
            for exchange in page.exchanges
            if exchange.id != self._subject.exchange_id
            for decision in exchange.decisions
            for text in texts_of(decision)
        ]
        return _Earlier(tuple(row.shown() for row in rows), tuple(decided))


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What was said in the session's last exchanges, as messages and in decisions."""

    messages: tuple[ChatMessage, ...] | None = field(repr=False)
    decided: tuple[str, ...] = field(default=(), repr=False)
