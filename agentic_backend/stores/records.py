"""Records: the rows that a store reads and writes. Clients never see one itself, only the result of its `shown`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Literal

from pydantic import Field

from agentic_backend.protocol.events import ErrorInfo, HumanRequests, PartialText
from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    ExchangeStatus,
    MessageMetadata,
    Parent,
    Role,
    Session,
    SessionState,
    Timestamp,
    TokenUsage,
)
from agentic_backend.protocol.parts import Part, Value, absent
from agentic_backend.protocol.views import AttachmentView

CHECKPOINT_VERSION = 1
_SHOWN_OF_SESSION, _SHOWN_OF_MESSAGE = tuple(Session.model_fields), tuple(ChatMessage.model_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session. Clients don't see the fields after the empty line."""

    id: str
    user_id: str
    agent_id: str
    title: str
    state: SessionState = SessionState.ACTIVE
    parent: Parent | None = None
    root_id: str | None = None
    pinned: bool = False
    archived: bool = False
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    next_rank: int = 0
    message_count: int = 0
    chat_profile: str = "default"
    active_exchange_id: str | None = None

    lineage: list[Parent] = field(default_factory=list)
    """The sessions that a branch descends from, the root first and its parent last (see lineage)."""
    unnamed: bool | None = None
    """Whether its title is a provisional one, which a model may replace; False once it has a name."""
    scope: dict[str, str] = field(default_factory=dict)
    """Whose settings apply to the session beside its user's, such as a class or an assignment, by the kind of scope."""
    submission_id: str | None = None
    """The client's id for the submission that the session belongs to."""
    active_owner: str | None = None
    """The instance that may write for the active exchange: it began the exchange, or claimed it last."""
    reset_rank: int | None = None
    """The rank from which on messages are given to agents; None if the session's state was never reset."""
    turn_count: int = 0
    """The number of exchanges that have begun in the session."""
    summary_id: str | None = None
    """The SummaryRecord that stands for the session's earlier messages; None if none does."""
    has_background: bool = False
    """Whether a tool has ever been started in the background here: only then is the end of one looked for."""

    @property
    def family_id(self) -> str:
        """The id of the session that all its branches and ancestors come from; of a session without any, its own."""
        return self.root_id or self.id

    def shown(self) -> Session:
        return Session(**{name: getattr(self, name) for name in _SHOWN_OF_SESSION})


class AttachmentState(StrEnum):
    """Only what is `kept` is found. An attachment of another state is being written or removed, or a process has died
    meanwhile, and it is removed later."""

    WRITTEN = "written"
    KEPT = "kept"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRecord:
    """A file that a user has uploaded. Its content is stored beside the rows, under its id."""

    id: str
    user_id: str
    session_id: str | None = None
    """The session in which it was sent; of a branch the one that all its branches come from. None until it is sent."""
    name: str
    mime: str
    """By its content: one that attachments.kinds has."""
    size: int
    """In bytes."""
    room: int | None = None
    """The bytes that count for its user: those of the file or, where they are more, of its text."""
    sha256: str
    created_at: datetime
    state: AttachmentState = AttachmentState.WRITTEN
    text: str | None = field(default=None, repr=False)
    """What models read of it; None of an image."""

    def shown(self) -> AttachmentView:
        named = {name: getattr(self, name) for name in AttachmentView.model_fields if name != "text_chars"}
        return AttachmentView(**named, text_chars=None if self.text is None else len(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDraft:
    """A complete message that is not stored yet: the store gives it its rank and its time. See MessageRecord."""

    role: Role
    channel: Channel
    parts: list[Part]
    metadata: MessageMetadata = field(default_factory=MessageMetadata)

    inner: int | None = None
    """The number of a message that has not reached the root graph, in its exchange (see streaming.reach)."""
    reached: list[int] = field(default_factory=list)
    """The numbers of such messages that have reached the root graph since."""
    model_parts: list[Part] = field(default_factory=list, repr=False)
    """What models are given instead of `parts`; empty: the same as people see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord(MessageDraft):
    """A message with its rank, never changed once stored. Clients don't see the fields after an empty line."""

    session_id: str | None
    """None only in query mode, which stores nothing."""
    exchange_id: str
    rank: int
    timestamp: datetime

    block: int | None = None
    """The block in which the message was streamed."""

    def shown(self) -> ChatMessage:
        return ChatMessage(**{name: getattr(self, name) for name in _SHOWN_OF_MESSAGE})


def place(
    drafts: Sequence[MessageDraft],
    *,
    session_id: str | None,
    exchange_id: str,
    next_rank: int,
    at: datetime,
    blocks: Sequence[int | None] = (),
) -> list[MessageRecord]:
    """Give the drafts the ranks `next_rank`, `next_rank + 1`, … No other code mints ranks."""
    return [
        MessageRecord(
            role=draft.role,
            channel=draft.channel,
            parts=draft.parts,
            metadata=draft.metadata,
            inner=draft.inner,
            reached=draft.reached,
            model_parts=draft.model_parts,
            session_id=session_id,
            exchange_id=exchange_id,
            rank=rank,
            timestamp=at,
            block=block,
        )
        for rank, (draft, block) in enumerate(zip_longest(drafts, blocks), start=next_rank)
    ]


def shown(messages: Sequence[MessageRecord]) -> list[ChatMessage]:
    return [message.shown() for message in messages]


class CheckpointKind(StrEnum):
    """The boundary of a run at which a checkpoint was taken. After `FINAL_RESULT` the run can't continue."""

    TOOL_CALL = "tool_call"
    TOOL_COMPLETION = "tool_completion"
    APPROVAL_PENDING = "approval_pending"
    RESUME_REQUEST = "resume_request"
    DRAINED = "drained"
    FINAL_RESULT = "final_result"


class CheckpointRecord(Value):
    """The part of an exchange's last checkpoint that clients see. `request_id` correlates it with the log."""

    version: int = CHECKPOINT_VERSION
    kind: CheckpointKind
    at: Timestamp
    exchange_id: str
    request_id: str
    tool: str | None = absent()
    partial_output: str | None = absent()


# Where a decision has the person's words, by its action.
_WORDS = {"answer": "answer", "edit": "edited_args", "reject": "message"}


class HumanDecision(Value):
    """One decision of a person, kept for good: who, when, what, and on which arguments.

    `args` are the arguments that the person saw, `edited_args` those that an edit replaced them with. `by` is None if
    the request expired first; it then counts as rejected. Where modules keep something from models, `for_model` is
    what the agent is given instead of the answer, the edited arguments or the message of a rejection.
    """

    interrupt_id: str
    action: Literal["approve", "reject", "edit", "answer", "expire"]
    by: str | None = absent()
    at: Timestamp
    call_id: str | None = absent()
    name: str | None = absent()
    args: dict[str, Any] | None = absent()
    args_sha256: str | None = absent()
    edited_args: dict[str, Any] | None = absent()
    message: str | None = absent()
    answer: Any = absent()
    for_model: Any = absent()

    @property
    def words(self) -> Any:
        """What the person has said: a JSON value, None if nothing."""
        name = _WORDS.get(self.action)
        return None if name is None else getattr(self, name)

    def with_words(self, words: Any, for_model: Any = None) -> "HumanDecision":
        """The decision with other words, and with what the agent is given instead of them, None if the same."""
        return self.model_copy(update={_WORDS[self.action]: words, "for_model": for_model})

    @property
    def given(self) -> "HumanDecision":
        """The decision as the agent is given it."""
        return self if self.for_model is None else self.with_words(self.for_model)


class PromptAddition(Value):
    """What a module has added to the system prompt of an exchange."""

    module: str
    text: str


class ExchangePolicy(Value):
    """Who asks in an exchange and what applies to it, for whoever continues it. `scope` is an id by kind of scope."""

    name: str = ""
    email: str | None = None
    roles: list[str] = Field(default_factory=list)
    groups: list[str] = Field(default_factory=list)
    scope: dict[str, str] = Field(default_factory=dict)
    chat_profile: str | None = None
    prompt_additions: list[PromptAddition] = Field(default_factory=list)
    blocked_response: str | None = None
    """What the user is shown instead of an answer, because a module has blocked their message."""
    blocked_by: str | None = None
    """The name of that module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRecord:
    """One exchange as stored.

    While it runs, `owner` is the instance that runs it, and `partial` the unfinished text of about a second ago.
    While it waits, `pending` holds all requests of its pause, `decisions` the answers so far, and `deadline` is when
    the open requests expire. A running exchange has a `deadline` only if an instance of an earlier version runs it,
    which renews it. `ran_ms` and `first_token_ms` count up to the last pause. `last_seq` is the seq of the last event
    before the pause or the end; while the exchange runs, the beginning of its owner's epoch. `runtime_context` is the
    client's data for the agent; it and `policy` are kept for the next owner, and dropped once the exchange can't
    continue.
    """

    id: str
    session_id: str
    user_id: str
    agent_id: str
    status: ExchangeStatus = ExchangeStatus.RUNNING
    client_exchange_id: str | None = None
    request_id: str
    first_rank: int = 0
    started_at: datetime
    ended_at: datetime | None = None
    last_seq: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    error: ErrorInfo | None = None
    runtime_context: dict[str, Any] = field(default_factory=dict, repr=False)
    policy: ExchangePolicy | None = field(default=None, repr=False)
    owner: str | None = None
    deadline: datetime | None = None
    partial: list[PartialText] = field(default_factory=list)
    pending: HumanRequests | None = None
    decisions: list[HumanDecision] = field(default_factory=list)
    checkpoint: CheckpointRecord | None = None
    ran_ms: int = 0
    first_token_ms: int | None = None
    resumes: str | None = None
    traceparent: str | None = None
    """Its trace, and its span there, as a header of W3C Trace Context; None in exchanges of older servers."""


Restore = Literal["warm", "cold"]
"""Where an agent's last run found the session's past: `warm` in its own memory, `cold` in the store."""


class KpiRecord(Value):
    """The cost of one exchange. Times are milliseconds since the ask; `session_id` is None in query mode.

    `prompt_tokens` is the size of the answering agent's system prompt by section. `restore` is None where there was no
    past. The calls of models have records of their own (see UsageRecord).
    """

    exchange_id: str
    session_id: str | None
    user_id: str
    agent_id: str
    status: ExchangeStatus
    started_at: Timestamp
    latency_ms: int
    first_token_ms: int | None
    usage: TokenUsage
    model: str | None
    tools: list[str]
    failed_tools: int
    turn_number: int | None = None
    """The place of the exchange in its session, from 1 on; None for a query, and in records of older servers."""
    history_compacted: bool = False
    """Whether the session's history was compacted for the exchange, or since the one before."""
    prompt_tokens: dict[str, int] = Field(default_factory=dict)
    restore: Restore | None = None
    instance: str | None = None
    """The server process that ran the exchange last; None if it was waiting, and in records of older servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    """Something that a graph keeps for its `owner` (see items). `value` is JSON text, and `value_bytes` its size."""

    id: str
    owner: str
    namespace: str
    key: str
    value: str = field(repr=False)
    value_bytes: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalMark:
    """Up to when the deletions of a journal (see journal) are done in this database."""

    journal_id: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDeletion:
    """A deletion of all of a user's data, which began `at` a time and goes on at least `until` another.

    Once it `is_over`, only the database's file may still hold some of them.
    """

    user_id: str
    at: datetime
    until: datetime
    is_over: bool = False
