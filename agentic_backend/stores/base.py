"""The Store protocol: the only memory of the server.

Every write for a running exchange is fenced by a compare-and-set on the session: it succeeds only if the session's
`active_exchange_id` is that exchange, its owner is the writer, and its `next_rank` is the one that the writer expects.
So an instance that others took for dead can't write when it comes back. Rows count only below their session's
`next_rank`, so a batch counts whole or not at all. Every method raises StoreUnavailable if the store can't be reached
or doesn't answer within its timeout; it never reports an uncertain write as saved.

If the answer to a write is lost, the writer can't know whether the write counts. So each write has a unique `token`,
which the store keeps. A writer may repeat a write with its token: if the write counts already, the store changes
nothing and returns the same answer, until the exchange's next write counts. A write without a token can't be repeated.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, Self

from agentic_backend.errors import RateLimited
from agentic_backend.protocol.events import ErrorInfo, HumanRequests
from agentic_backend.protocol.messages import ExchangeStatus, SessionState, TokenUsage
from agentic_backend.stores.cursors import cursor_at, place_of
from agentic_backend.stores.protocol.agent_versions import AgentVersionStore
from agentic_backend.stores.protocol.application_records import ApplicationRecordStore
from agentic_backend.stores.protocol.attachments import AttachmentStore
from agentic_backend.stores.protocol.branches import BranchStore
from agentic_backend.stores.protocol.chores import ChoreStore
from agentic_backend.stores.protocol.exchange_pages import ExchangePageStore
from agentic_backend.stores.protocol.instances import InstanceStore
from agentic_backend.stores.protocol.items import ItemStore
from agentic_backend.stores.protocol.kpi_figures import KpiStore
from agentic_backend.stores.protocol.message_search import MessageSearchStore
from agentic_backend.stores.protocol.messages import MessageStore
from agentic_backend.stores.protocol.partials import PartialStore
from agentic_backend.stores.protocol.session_search import SessionSearchStore
from agentic_backend.stores.protocol.trail import SummaryRecord, TrailRecord, TrailStore
from agentic_backend.stores.protocol.usage_sums import UsageStore
from agentic_backend.stores.protocol.user_rows import UserStore
from agentic_backend.stores.records import (
    CheckpointRecord,
    ExchangeRecord,
    HumanDecision,
    KpiRecord,
    MessageDraft,
    MessageRecord,
    SessionRecord,
)
from agentic_backend.stores.schema import SchemaStore

STATES_KEPT = 20
"""The number of states that a session keeps of its graphs; a newer one replaces the oldest."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The writer and its next rank: the compare in every compare-and-set. `owner` is the writer's instance.

    `after` is the session's `updated_at` as the writer knows it; no write gets an earlier time.
    """

    session_id: str
    exchange_id: str
    next_rank: int
    owner: str | None = None
    after: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The point from which a run can continue. `state` is None if it can't, and only the record is kept."""

    record: CheckpointRecord
    state: bytes | None


@dataclass(frozen=True, slots=True)
class Pause:
    """The state of an exchange that waits for a person; without a `deadline` it waits for good."""

    pending: HumanRequests
    checkpoint: Checkpoint
    deadline: datetime | None
    usage: TokenUsage
    last_seq: int
    ran_ms: int
    first_token_ms: int | None


@dataclass(frozen=True, slots=True)
class ExchangeEnd:
    """The end of an exchange, written together with its last messages.

    `session_state` holds what the session's graphs have left; None if the exchange has not changed it.
    """

    status: ExchangeStatus
    usage: TokenUsage
    last_seq: int
    error: ErrorInfo | None = None
    kpi: KpiRecord | None = None
    session_state: bytes | None = None


@dataclass(frozen=True, slots=True)
class KeptState:
    """The state of the session's graphs after `exchange_id`; `rank` was the session's next rank at its end."""

    exchange_id: str
    rank: int
    state: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write has stored, and the session after it."""

    session: SessionRecord
    messages: list[MessageRecord] = field(default_factory=list)
    was_archived: bool = False
    """Whether this has taken the session out of the archive."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A session, and whether this very call has completed it."""

    session: SessionRecord
    is_new: bool


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """The sessions of one user, or of all (None).

    `text` searches titles and message texts, case-insensitively. `cursor` is the `next_cursor` of another page."""

    user_id: str | None
    agent_id: str | None = None
    state: SessionState | None = None
    pinned: bool | None = None
    archived: bool | None = None
    text: str | None = None
    limit: int = 50
    cursor: str | None = None

    @property
    def place(self) -> tuple[datetime, str] | None:
        """`updated_at` (in UTC) and `id` of the previous page's last session, or None. Raises BadFrame."""
        return place_of(self.cursor)


@dataclass(frozen=True, slots=True)
class SessionChange:
    """What a user changes of a session and of all its branches; None leaves it as it is."""

    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    sessions: list[SessionRecord]
    next_cursor: str | None

    @classmethod
    def of(cls, found: Sequence[SessionRecord], limit: int) -> Self:
        """The first `limit` sessions of `found`; if it has more, another page follows."""
        page = list(found[:limit])
        return cls(page, cursor_after(page[-1]) if len(found) > limit else None)


def cursor_after(session: SessionRecord) -> str:
    """The cursor behind a page's last session."""
    return cursor_at(session.updated_at, session.id)


class AlreadyAsked(Exception):
    """The user has sent this `client_exchange_id` before, which began `exchange_id`."""

    def __init__(self, exchange_id: str) -> None:
        super().__init__(exchange_id)
        self.exchange_id = exchange_id


class FencedOut(Exception):
    """The writer no longer owns its session: the session was deleted, or another instance took it over."""


def took_too_long() -> RateLimited:
    """The error of a search or a report that runs out of time: a slow answer doesn't mean that the store is away."""
    return RateLimited("That took too long; ask for less, or again in a moment.", retry_after_s=5)


class Store(
    InstanceStore,
    ItemStore,
    ApplicationRecordStore,
    AttachmentStore,
    MessageStore,
    MessageSearchStore,
    ExchangePageStore,
    SessionSearchStore,
    TrailStore,
    UsageStore,
    KpiStore,
    PartialStore,
    ChoreStore,
    UserStore,
    BranchStore,
    AgentVersionStore,
    SchemaStore,
    Protocol,
):
    async def create_session(self, session: SessionRecord) -> None: ...

    async def get_session(self, session_id: str) -> SessionRecord | None: ...

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        """The sessions, the last updated first. Raises BadFrame if the cursor is invalid.

        Raises RateLimited if a search exceeds the timeout of an operation; the store then stops it.
        """
        ...

    async def name_session(self, session_id: str, title: str) -> list[SessionRecord]:
        """Set the title of a session that has no name yet, and of all in its family that have none.

        Returns them, the session itself first; none if there is no such session.
        """
        ...

    async def change_session(self, session_id: str, change: SessionChange) -> list[SessionRecord]:
        """Change the session and its family: its root and all branches that come from it.

        Returns all of them as they are then, the session itself first; none if it doesn't exist. This is no activity:
        `updated_at` stays.
        """
        ...

    async def complete_session(
        self, session_id: str, at: datetime, idle_since: datetime | None = None
    ) -> Completion | None:
        """Complete an active session; return a completed one unchanged. None if the session doesn't exist.

        With `idle_since`, a session that was updated later, or has an active exchange, is returned unchanged too;
        that nobody uses it is no activity: `updated_at` stays, and so its place in its user's list.
        """
        ...

    async def delete_session(self, session_id: str) -> list[str]:
        """Delete the session, and all that descend from it, with their states, exchanges and messages.

        Returns the ids of those that were there. KPI records stay: they hold no text.
        """
        ...

    async def session_state(self, session_id: str, up_to_rank: int | None = None) -> bytes | None:
        """The state of the session's graphs after its last ended exchange, or after its messages below `up_to_rank`.

        None if no exchange has left a state, or if it is older than the session's last STATES_KEPT.
        """
        ...

    async def keep_summary(self, summary: SummaryRecord, session: SessionRecord) -> SessionRecord | None:
        """Store the summary and make it the session's, if the session is as `session` has been read.

        That is, if it is active and has the same ranks, summary, active exchange and owner; else None.
        """
        ...

    async def reset_state(self, session_id: str) -> SessionRecord | None:
        """Delete the states of the session's graphs, its summaries, and what an interrupted exchange could go on from.

        `reset_rank` becomes the session's next rank. None if the session doesn't exist. Raises SessionBusy while an
        exchange runs or waits.
        """
        ...

    async def begin_exchange(
        self,
        exchange: ExchangeRecord,
        opening: MessageDraft,
        new_session: SessionRecord | None = None,
        checkpoint: Checkpoint | None = None,
        trail: Sequence[TrailRecord] = (),
    ) -> Written:
        """Admit one exchange into its session and store its first message, in one step.

        `new_session` and `trail` are stored in the same step; the exchange starts from `checkpoint`. The exchange's
        `first_rank` is the caller's guess at the session's next rank; the store corrects it. Drops the checkpoints of
        the session's earlier exchanges. Takes an archived session out of the archive, and its family with it, which a
        store without transactions may do just after that. Raises AlreadyAsked, SessionNotFound (also if the session
        belongs to another user), SessionCompleted, SessionBusy (also if another session has the id of `new_session`).
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
        trail: Sequence[TrailRecord] = (),
        token: str | None = None,
    ) -> Written:
        """Store messages from `fence.next_rank` on and, with `end`, end the exchange in the same step.

        `checkpoint` replaces the exchange's last one, which stays otherwise. A store without transactions may store it
        just after the messages, and `trail` just before them. `blocks` are the blocks in which the messages were
        streamed, None for one that was not. Raises FencedOut, without having written anything but the trail.
        """
        ...

    async def set_waiting(self, fence: Fence, pause: Pause, token: str | None = None) -> None:
        """Store that the exchange waits for a person. It has no owner until an instance claims it.

        Raises FencedOut, also if it waits already, and Internal if its state is too large to be stored.
        """
        ...

    async def decide(
        self,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        owner: str | None = None,
        token: str | None = None,
        *,
        trail: Sequence[TrailRecord] = (),
    ) -> None:
        """Add `decisions` to an exchange that has not changed since `waiting` was read; each counts once.

        `trail` is stored in the same step; a store without transactions may store it just before. The policy of
        `waiting` replaces the stored one. With `owner`, that instance claims the exchange, which runs again: `last_seq`
        becomes the beginning of the next epoch. Without, it waits on for the other decisions. Raises ApprovalNotFound,
        without having written anything but the trail, if it no longer waits or has got another decision. After
        StoreUnavailable, the decisions may be stored, and it may count as running until its owner sees otherwise.
        """
        ...

    async def running_exchanges(
        self, *, not_of: Collection[str] = (), not_among: Collection[str] = (), limit: int = 1000
    ) -> list[ExchangeRecord]:
        """At most `limit` running exchanges, without those of the owners `not_of` and those with ids `not_among`."""
        ...

    async def running_among(self, owner: str, exchange_ids: Collection[str]) -> set[str]:
        """Those of `exchange_ids` that `owner` runs."""
        ...

    async def expired_exchanges(self, at: datetime, limit: int = 1000) -> list[ExchangeRecord]:
        """At most `limit` waiting exchanges whose `deadline` is before `at`, the earliest deadline first."""
        ...

    async def fence(self, session_id: str) -> Fence | None:
        """The fence of the next write for the session's active exchange, of any owner; None without one."""
        ...

    async def checkpoint(self, exchange_id: str) -> Checkpoint | None:
        """The checkpoint from which a waiting or interrupted exchange continues; None if none is stored."""
        ...

    async def can_go_on(self, exchange_id: str) -> bool:
        """Whether there is such a checkpoint, with a state; reads no state."""
        ...

    async def get_exchange(self, exchange_id: str) -> ExchangeRecord | None: ...

    async def find_exchange(self, user_id: str, client_exchange_id: str) -> ExchangeRecord | None: ...

    async def client_exchange_ids(self, exchange_ids: Collection[str]) -> dict[str, str]:
        """The clients' ids for these exchanges, by exchange id; those that have none are left out."""
        ...

    async def statuses(self, exchange_ids: Collection[str]) -> dict[str, ExchangeStatus]:
        """The statuses of these exchanges, by exchange id. One that ends meanwhile may still count as running."""
        ...

    async def count_waiting(self, user_id: str) -> int:
        """The number of the user's exchanges that wait for a person."""
        ...

    async def count_asked(self, session_id: str, below_rank: int) -> int:
        """The number of messages below that rank that the session's user has sent, without what was resumed.

        Those that a branch shares count too.
        """
        ...

    async def count_empty_sessions(self, user_id: str) -> int:
        """The number of the user's sessions without a message."""
        ...

    async def prove_write(self) -> None:
        """Write about as much as an ask does, as a test without other effect. Raises StoreUnavailable."""
        ...

    async def aclose(self) -> None: ...
