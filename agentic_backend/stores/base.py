"""The Store protocol: the only memory of the server.

Every write that belongs to a running exchange is fenced: it happens only while the session's `active_exchange_id` is
that exchange, its owner is the writer, and its `next_rank` is what the writer believes (a compare-and-set on the
session). So an instance that was taken for dead and comes back writes nothing. Rows count only below their session's
`next_rank`, so a batch counts whole or not at all. Every method raises StoreUnavailable when the store can't be reached
or doesn't answer within its timeout; nothing is then reported as saved.

Whether a write counts whose answer was lost, only the store knows. So a writer gives each write a `token` of its own,
which the store keeps with it: repeated under its token, a write that counts already changes nothing and is answered as
it was, until the exchange's next write counts. One without a token is never taken for another.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from agentic_backend.errors import RateLimited
from agentic_backend.protocol.events import ErrorInfo, HumanRequests, PartialText
from agentic_backend.protocol.messages import (
    ChatMessage,
    ExchangeStatus,
    MessageDraft,
    Session,
    SessionState,
    TokenUsage,
)
from agentic_backend.stores.kpi_figures import KpiBucket, KpiQuery
from agentic_backend.stores.records import CheckpointRecord, ExchangeRecord, HumanDecision, KpiRecord

Observer = Callable[[str, float, bool], None]
"""Told of each operation of a store: its name, how long it took in seconds, and whether the store answered."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Who writes, and from which rank on: the compare in every compare-and-set. `owner` is the writer's instance.

    `after` is the session's `updated_at` as the writer knows it: what is written is no earlier.
    """

    session_id: str
    exchange_id: str
    next_rank: int
    owner: str | None = None
    after: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run can go on from. `state` is None where it can't any more, and only its record is kept."""

    record: CheckpointRecord
    state: bytes | None


@dataclass(frozen=True, slots=True)
class Pause:
    """An exchange as it stands while it waits for a person; `deadline` None: for as long as it takes."""

    pending: HumanRequests
    checkpoint: Checkpoint
    deadline: datetime | None
    usage: TokenUsage
    last_seq: int
    ran_ms: int
    first_token_ms: int | None


@dataclass(frozen=True, slots=True)
class ExchangeEnd:
    """How an exchange ended, written together with its last messages. `session_state` None leaves it as it is."""

    status: ExchangeStatus
    usage: TokenUsage
    last_seq: int
    error: ErrorInfo | None = None
    kpi: KpiRecord | None = None
    session_state: bytes | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a write made: the placed messages, and the session as it stands after it."""

    session: Session
    messages: list[ChatMessage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """`text` searches titles and message texts, case-insensitively. `cursor` is a former page's `next_cursor`."""

    user_id: str
    agent_id: str | None = None
    state: SessionState | None = None
    text: str | None = None
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    sessions: list[Session]
    next_cursor: str | None


class AlreadyAsked(Exception):
    """The user has sent this `client_exchange_id` before; it began `exchange_id`."""

    def __init__(self, exchange_id: str) -> None:
        super().__init__(exchange_id)
        self.exchange_id = exchange_id


class FencedOut(Exception):
    """The writer no longer owns its session: it was deleted, or another instance took it over."""


def took_too_long() -> RateLimited:
    """The error of what may read much, where its time is over: a store that does too much is not away."""
    return RateLimited("That took too long; ask for less, or again in a moment.", retry_after_s=5)


class Store(Protocol):
    async def create_session(self, session: Session) -> None: ...

    async def get_session(self, session_id: str) -> Session | None: ...

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        """The user's sessions, the last updated first. Raises BadFrame where the cursor isn't one of ours.

        Raises RateLimited where a search takes longer than an operation may; the work ends then.
        """
        ...

    async def rename_session(self, session_id: str, title: str, *, only_if: str | None = None) -> Session | None:
        """Set the title (where `only_if` is given: if it is still that one). None where nothing was renamed."""
        ...

    async def complete_session(self, session_id: str, at: datetime) -> Session | None:
        """Set an active session to completed; a completed one is returned as it is. None where there is none."""
        ...

    async def delete_session(self, session_id: str) -> None:
        """Remove the session, its state, exchanges and messages. KPI records stay: they hold no text."""
        ...

    async def session_state(self, session_id: str) -> bytes | None:
        """What the last ended exchange left in the graph's channels beside `messages`."""
        ...

    async def begin_exchange(
        self,
        exchange: ExchangeRecord,
        opening: MessageDraft,
        new_session: Session | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Written:
        """Admit one exchange into its session and store its first message, in one step.

        With `new_session` the session is made in the same step; `checkpoint` is where the exchange starts from. The
        exchange's `first_rank` is what the caller believes to be the session's next rank; the store sets the right one.
        What earlier exchanges of the session could have gone on from goes. Raises AlreadyAsked, SessionNotFound (also
        where the session is another user's), SessionCompleted, SessionBusy.
        """
        ...

    async def append(
        self,
        fence: Fence,
        drafts: Sequence[MessageDraft],
        end: ExchangeEnd | None = None,
        checkpoint: Checkpoint | None = None,
        *,
        blocks: Sequence[int | None] = (),
        token: str | None = None,
    ) -> Written:
        """Store messages from `fence.next_rank` on and, with `end`, end the exchange in the same step.

        `checkpoint` takes the place of the exchange's last one; without it that one stays. A store without transactions
        may keep it a moment after the messages. `blocks` are those in which the messages were being written, None where
        there was none. Raises FencedOut and then has written nothing.
        """
        ...

    async def set_waiting(self, fence: Fence, pause: Pause, token: str | None = None) -> None:
        """The exchange waits for a person, nobody's any more but by a new claim.

        Raises FencedOut, also where it waits already, and Internal where its state is too large to be kept.
        """
        ...

    async def decide(
        self,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        owner: str | None = None,
        token: str | None = None,
    ) -> None:
        """Add `decisions` to those of an exchange that still waits as `waiting` says; each counts once.

        With `owner` it runs again, as that instance's, whose seqs are of the next epoch: `last_seq` becomes its
        beginning. Without, it goes on waiting for the rest. Raises ApprovalNotFound where it no longer waits, or
        somebody has decided since `waiting` was read; nothing is written then. Where it raises StoreUnavailable the
        decisions may be kept, and the exchange may run until its owner sees that it doesn't.
        """
        ...

    def heartbeat(self, instance_id: str, every_s: float) -> AbstractAsyncContextManager[None]:
        """The instance is among `beats` when the context is entered, and its counter moves while it is open.

        So it does while the event loop is blocked, for up to a minute. Raises StoreUnavailable.
        """
        ...

    async def beats(self) -> dict[str, int]:
        """The counter of each instance that has not ended; nothing where there can be only one instance."""
        ...

    async def forget_instance(self, instance_id: str, last_beat: int) -> None:
        """Forget an instance whose counter stands there; one that lives after all comes back with its next beat."""
        ...

    def now(self) -> datetime:
        """The time that rows get, the same for all instances: the database's, where they share one."""
        ...

    async def compare_clocks(self) -> float | None:
        """Take over the database's time; how many seconds this machine's clock is ahead of it.

        None where the machine's clock is the only one.
        """
        ...

    async def keep_partials(self, owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
        """Keep the text that is being written in the exchanges of these ids, as far as `owner` still runs them."""
        ...

    async def partial(self, exchange_id: str) -> list[PartialText]:
        """The text that was being written when it was last kept, but for what has been stored as a message since."""
        ...

    async def running_exchanges(
        self, *, not_of: Collection[str] = (), not_among: Collection[str] = (), limit: int = 1000
    ) -> list[ExchangeRecord]:
        """At most `limit` exchanges that run, but for those of the owners `not_of` and those with ids `not_among`."""
        ...

    async def running_among(self, owner: str, exchange_ids: Collection[str]) -> set[str]:
        """Which of the exchanges of these ids `owner` runs."""
        ...

    async def expired_exchanges(self, at: datetime, limit: int = 1000) -> list[ExchangeRecord]:
        """At most `limit` exchanges that wait, and whose `deadline` lies before `at`, the longest due first."""
        ...

    async def fence(self, session_id: str) -> Fence | None:
        """What the next write for the session's active exchange has to hold, whoever owns it; None without one."""
        ...

    async def checkpoint(self, exchange_id: str) -> Checkpoint | None:
        """Where a waiting or an interrupted exchange goes on from; None where nothing is kept to go on from."""
        ...

    async def get_exchange(self, exchange_id: str) -> ExchangeRecord | None: ...

    async def find_exchange(self, user_id: str, client_exchange_id: str) -> ExchangeRecord | None: ...

    async def count_waiting(self, user_id: str) -> int:
        """How many of the user's exchanges wait for a person."""
        ...

    async def count_empty_sessions(self, user_id: str) -> int:
        """How many of the user's sessions have no message."""
        ...

    async def exchange_messages(self, exchange_id: str, max_bytes: int | None = None) -> list[ChatMessage]:
        """All messages of one exchange, by rank.

        With `max_bytes` the first, and of the others as many of the last ones as fit, one at least.
        """
        ...

    async def messages_after(
        self, session_id: str, after_rank: int, limit: int, max_bytes: int | None = None
    ) -> list[ChatMessage]:
        """At most `limit` messages with a rank above `after_rank` (-1: from the first), by rank.

        With `max_bytes` as many of these as fit, one at least; little more than that is read.
        """
        ...

    async def last_exchanges(self, session_id: str, count: int, max_bytes: int | None = None) -> list[ChatMessage]:
        """The messages of the last `count` ended exchanges, by rank. Costs the same however long the session is.

        With `max_bytes` only as many of these exchanges, each of them whole, as fit.
        """
        ...

    async def record_kpi(self, record: KpiRecord) -> None:
        """Store the KPIs of an exchange that stores nothing else (query mode)."""
        ...

    async def kpi_figures(self, query: KpiQuery) -> list[KpiBucket]:
        """The first `query.limit` buckets of figures over KPI records, by time and group.

        Raises RateLimited where it takes longer than an operation may; the work ends then.
        """
        ...

    async def prove_write(self) -> None:
        """Write about as much as an ask does, to a place that means nothing. Raises StoreUnavailable."""
        ...

    async def aclose(self) -> None: ...
