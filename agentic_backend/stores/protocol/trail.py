"""Trail: what the server records about exchanges beside their messages.

That is audits, extractions, usage, tool calls, activities, prompts, summaries, failures of modules, what admins have
read, feedback on answers, and the links by which sessions are shared. A record has an id that its writer chooses, so
that a repeated write changes nothing more than the first one did. Records that belong to an exchange are written in one
step with its messages (see `Store.begin_exchange` and `Store.append`), the others with `add_trail`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar

from agentic_backend.protocol.events import ActivityKind
from agentic_backend.protocol.parts import Value
from agentic_backend.stores.cursors import cursor_at, place_of

Rating = Literal["up", "down"]


Purpose = Literal[
    "answer",
    "title",
    "summary",
    "module",
    "internal",
    "application",
    "rewrite",
    "rerank",
    "judge",
    "grounding",
    "embedding",
]
"""What a model is called for; `internal` are calls whose text nobody sees, and those behind it an application's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """The original of a text that a module has replaced or blocked. Only admins see it."""

    id: str
    at: datetime
    session_id: str
    exchange_id: str
    user_id: str
    rank: int | None
    """The rank of the message that is stored instead; None if that is not known yet."""
    point: str
    """The module's point, such as `chat:before_ai`."""
    module: str
    action: Literal["modified", "blocked"]
    original: str = field(repr=False)
    reason: str = ""
    patterns: list[str] = field(default_factory=list)

    @property
    def is_objection(self) -> bool:
        """Whether the module had something against the text: some change a text for its form, and give no reason."""
        return self.action == "blocked" or bool(self.reason or self.patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRecord:
    """Structured data that a module has found in an exchange."""

    id: str
    at: datetime
    session_id: str
    exchange_id: str | None
    user_id: str
    point: str
    module: str
    type: str
    data: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleErrorRecord:
    """A module that failed or took too long: `module:hook_error`. It holds no text of a conversation."""

    id: str
    at: datetime
    session_id: str | None
    exchange_id: str | None
    point: str
    module: str
    error: str
    """The type of the exception, or `timeout`."""
    duration_ms: int
    outcome: Literal["continued", "blocked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """One call of a model. Tokens are None where nothing is known of them, the cost where no price is set."""

    id: str
    at: datetime
    day: str
    """The day of `at` in UTC, such as 2026-01-31."""
    user_id: str
    group: str | None
    session_id: str | None
    exchange_id: str | None
    agent_id: str | None
    purpose: Purpose
    model: str
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    currency: str | None
    priced_on: str | None
    """The date of the price."""
    estimated: bool | None = None
    """Whether the server has estimated the tokens, for no provider has told them; None: it has not."""


class Allowance(Value):
    """Why a call of a tool was allowed to run, noted when the tool started."""

    agent_id: str
    """The agent whose catalog entry decided."""
    requires_approval: bool
    """Whether that entry requires that a person approves of each call of the tool."""
    needs: list[str]
    """The permissions that the tool needs, all of which the user had."""
    everybody_may: bool
    """Whether the settings give no roles their permissions, so that every user has every one."""
    asks_agent: str | None = None
    """The agent that the tool asks, whose words its result is; None if it asks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecord:
    """One call of a tool."""

    id: str
    at: datetime
    session_id: str
    exchange_id: str
    user_id: str
    agent_id: str
    call_id: str
    name: str
    args: dict[str, Any] = field(repr=False)
    state: Literal["pending", "success", "error", "rejected", "forbidden"]
    result: str | None = field(default=None, repr=False)
    error: str | None = field(default=None, repr=False)
    approved_by: str | None = None
    allowance: Allowance | None = None
    """None until it has ended, if it never started, and in records of older servers."""
    completed_at: datetime | None = None
    duration_ms: int | None = None
    runs_on: str | None = None
    """The instance that runs it in the background; None if none does."""
    reported_in: str | None = None
    """Once it has ended in the background: the exchange whose system prompt says so, empty before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityRecord:
    """An activity of an exchange that is shown again when its session is read: see `ActivityView`."""

    id: str
    at: datetime
    session_id: str
    exchange_id: str
    user_id: str
    seq: int
    """That of the event."""
    after_rank: int
    """The rank of the message before it."""
    kind: ActivityKind
    data: dict[str, Any] = field(repr=False)


class PromptSection(Value):
    """A part of a system prompt, and where it came from."""

    name: str
    source: str
    version: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRecord:
    """The system prompt that one agent of an exchange was given."""

    id: str
    at: datetime
    session_id: str
    exchange_id: str
    user_id: str
    agent_id: str
    sections: list[PromptSection] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRecord:
    """What stands for a session's messages from `from_rank` up to, but without, `to_rank`: what a model made of them.

    Where the model failed, or was not asked, `text` is what stood for the earlier ones before.
    """

    id: str
    at: datetime
    session_id: str
    user_id: str
    from_rank: int
    to_rank: int
    text: str = field(repr=False)
    tokens: int
    model: str
    """The model that was asked; empty if the chat profile wants no summary."""
    chat_profile: str
    turn_number: int = 0
    """The session's last turn that had ended when it was made."""
    turns: int = 0
    """The turns that have left the context with it."""
    tokens_before: int = 0
    """The tokens of the history without it."""
    tokens_after: int = 0
    """The tokens of the history that is left, with it."""
    dropped_from: int | None = None
    """The first rank of the messages that `text` says nothing of; None if there is none."""

    @property
    def is_wanted(self) -> bool:
        """Whether the chat profile wanted a summary."""
        return bool(self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminReadRecord:
    """What an admin has read of other users."""

    id: str
    at: datetime
    user_id: str
    """The admin."""
    request_id: str
    path: str
    """The method, the path and the query."""
    subject: str | None
    """The user, or the session, whose data was read; None for an overview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackRecord:
    """What a session's user says of an answer: one record for each answer, which a later one replaces."""

    id: str
    at: datetime
    session_id: str
    """The session that has the answer's row: of an answer that a branch shares, not the branch."""
    exchange_id: str
    user_id: str
    agent_id: str
    """The agent that was asked."""
    rank: int
    rating: Rating
    comment: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRecord:
    """A link by which others may read a session's messages below `up_to_rank`, until it expires."""

    id: str
    """The SHA-256 of the link's secret, in hex; the secret itself is not stored."""
    at: datetime
    session_id: str
    user_id: str
    up_to_rank: int
    expires_at: datetime


TrailRecord = (
    AuditRecord
    | ExtractionRecord
    | ModuleErrorRecord
    | UsageRecord
    | ToolCallRecord
    | ActivityRecord
    | PromptRecord
    | SummaryRecord
    | AdminReadRecord
    | FeedbackRecord
    | ShareRecord
)
R = TypeVar("R", bound=TrailRecord)


@dataclass(frozen=True, slots=True)
class TrailQuery(Generic[R]):
    """The records of one kind whose columns have the values `where`, from `since` on and before `until`."""

    record: type[R]
    where: Mapping[str, str | int] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
    cursor: str | None = None
    """The `next_cursor` of another page."""

    @property
    def place(self) -> tuple[datetime, str] | None:
        """`at` (in UTC) and `id` of the previous page's last record, or None. Raises BadFrame."""
        return place_of(self.cursor)


@dataclass(frozen=True, slots=True)
class TrailPage(Generic[R]):
    """Records, the newest first."""

    records: list[R]
    next_cursor: str | None

    @classmethod
    def of(cls, found: Sequence[R], limit: int) -> "TrailPage[R]":
        """The first `limit` records of `found`; if it has more, another page follows."""
        page = list(found[:limit])
        has_more = len(found) > limit
        cursor = cursor_at(page[-1].at, page[-1].id) if has_more else None
        return cls(page, cursor)


def starts_background(records: Sequence[TrailRecord]) -> bool:
    """Whether a tool goes on running in the background after these records."""
    return any(isinstance(one, ToolCallRecord) and one.runs_on is not None for one in records)


class TrailStore(Protocol):
    """The operations of a Store on the trail."""

    async def add_trail(self, records: Sequence[TrailRecord]) -> None:
        """Store the records; one with the id of a stored one replaces it. Those of deleted sessions are left out."""
        ...

    async def trail(self, query: TrailQuery[R]) -> TrailPage[R]:
        """A page of records, the newest first. Raises BadFrame if the cursor is invalid."""
        ...

    async def remove_trail(self, record: type[TrailRecord], record_id: str) -> None:
        """Delete the record with this id, if there is one."""
        ...
