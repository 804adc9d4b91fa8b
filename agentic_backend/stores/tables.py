"""Tables: every kind of stored row, declared once for all databases.

A Table is derived from its record. It defines SQLite's columns, MongoDB's documents, the indexes, the mapping between
records and rows, and whether rows are deleted with their session; `migrate` copies every table. So a new kind of row
needs a record, a Table, and its special operations.

What is in a column is said in columns; `search_…` columns are case-folded.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from agentic_backend.protocol.parts import text_of
from agentic_backend.stores.columns import Column, columns_of
from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord
from agentic_backend.stores.protocol.application_records import INDEXES, UNIQUE_INDEXES, ApplicationRecord
from agentic_backend.stores.protocol.partials import PartialPiece
from agentic_backend.stores.protocol.trail import (
    ActivityRecord,
    AdminReadRecord,
    AuditRecord,
    ExtractionRecord,
    FeedbackRecord,
    ModuleErrorRecord,
    PromptRecord,
    ShareRecord,
    SummaryRecord,
    ToolCallRecord,
    UsageRecord,
)
from agentic_backend.stores.records import (
    AttachmentRecord,
    ExchangeRecord,
    ItemRecord,
    JournalMark,
    KpiRecord,
    MessageRecord,
    SessionRecord,
    UserDeletion,
)
from agentic_backend.stores.rows import Row, folded

R = TypeVar("R")

SEARCHED_CHARACTERS = 1_000_000
"""A search looks at so many characters of a message, the first ones."""


class Table(Generic[R]):
    """Rows of one kind of record.

    `key` are the unique columns: one, or `session_id` and `order`. `order` is the column that pages are sorted by; it
    is unique, among the rows of one session if they belong to one. Rows `of_session` have a `session_id`, and are
    deleted with their session. `indexes` are columns by the name of their index; a leading `-` means descending. The
    values of each of the columns `unique` are in one row only. Where it is `lazy`, its indexes are made when it is
    first used, and a server that never does pays nothing for them.
    `renamed` maps fields to columns with another name. `searched` makes columns that are only searched. `modern`
    upgrades a record that an older server has written. `label` is the name of the rows in reports. `user` is the column
    that says whose the rows are, which are deleted with all of the user's data. `time` is the column that says how old
    a row is, where rows may be kept for some time only.
    """

    def __init__(
        self,
        name: str,
        record: type[R],
        *,
        of_session: bool,
        label: str | None = None,
        key: tuple[str, ...] = ("id",),
        order: str | None = None,
        indexes: Mapping[str, tuple[str, ...]] | None = None,
        unique: tuple[str, ...] = (),
        lazy: bool = False,
        user: str | None = None,
        time: str | None = None,
        renamed: Mapping[str, str] | None = None,
        searched: Callable[[R], Row] = lambda record: {},
        modern: Callable[[R], R] = lambda record: record,
    ) -> None:
        self.name = name
        self.record = record
        self.label = label or name
        self.of_session = of_session
        self.key = key
        self.order = order or key[-1]
        self.indexes = dict(indexes or {})
        self.unique = unique
        self.lazy = lazy
        if of_session and not any(columns[0] == "session_id" for columns in (key, *self.indexes.values())):
            self.indexes["by_session"] = ("session_id", self.order)
        self.user = user
        self.time = time
        self._searched = searched
        self._modern = modern
        self.columns = tuple(columns_of(record, renamed or {}))
        self._reading = [(column.name, column.field, column.read, column.required) for column in self.columns]
        """The columns as `record_of` needs them, computed once: pages have hundreds of rows."""

    @property
    def names(self) -> list[str]:
        """The columns that a record is read from."""
        return [column.name for column in self.columns]

    def row(self, record: R) -> Row:
        """The row of `record`. Raises ValueError if a text is not valid Unicode."""
        return {column.name: column.stored(record) for column in self.columns} | self._searched(record)

    def record_of(self, row: Mapping[str, Any]) -> R:
        """The record of a row. Fields that are None, or missing in a row of an older schema, get their defaults."""
        found = dict(row)
        values: Row = {}
        for name, field, read, required in self._reading:
            value = found.get(name)
            if value is not None:
                values[field] = value if read is None else read(value)
            elif required:
                values[field] = None
        return self._modern(self.record(**values))


class WholeTable(Table[R]):
    """Rows that hold their record as one JSON text, `record`, beside the `columns` that queries need."""

    def __init__(self, name: str, record: type[R], *, columns: Iterable[str], **options: Any) -> None:
        super().__init__(name, record, **options)
        wanted = set(columns)
        self._kept = tuple(column for column in self.columns if column.name in wanted)
        self._adapter: TypeAdapter[R] = TypeAdapter(record)
        self.columns = (*self._kept, Column("record", "record", "TEXT", None, None, nullable=False, required=True))

    def row(self, record: R) -> Row:
        values = {column.name: column.stored(record) for column in self._kept}
        return values | {"record": self._adapter.dump_json(record).decode()}

    def record_of(self, row: Mapping[str, Any]) -> R:
        return self._adapter.validate_json(row["record"])


def _searched(text: str) -> str:
    # It repeats the text, also in memory while it is written; of a document's 16 MB it takes at most 4, in UTF-8.
    return folded(text[:SEARCHED_CHARACTERS])[:SEARCHED_CHARACTERS]


def _with_marks(message: MessageRecord) -> MessageRecord:
    """Move the marks of a message's reach, which older servers kept in its metadata, to their own fields."""
    extras = message.metadata.extras
    if marks := {name: extras[name] for name in ("inner", "reached") if name in extras}:
        others = {name: value for name, value in extras.items() if name not in marks}
        return replace(message, metadata=message.metadata.model_copy(update={"extras": others}), **marks)
    return message


SESSIONS = Table(
    "sessions",
    SessionRecord,
    of_session=False,
    user="user_id",
    indexes={
        "by_activity": ("user_id", "-updated_at", "-id"),
        "by_time": ("-updated_at", "-id"),
        "empty": ("user_id", "next_rank"),
        "idle": ("state", "updated_at"),
        "pinned": ("user_id", "pinned", "-updated_at", "-id"),
        "archived": ("user_id", "archived", "-updated_at", "-id"),
        "by_root": ("root_id", "updated_at"),
    },
    searched=lambda session: {"search_title": folded(session.title)},
)
EXCHANGES = Table(
    "exchanges",
    ExchangeRecord,
    of_session=True,
    user="user_id",
    order="first_rank",
    renamed={"checkpoint": "checkpoint_record"},
    indexes={
        "by_rank": ("session_id", "-first_rank"),
        "due": ("status", "deadline"),
        "waiting": ("user_id", "status"),
    },
)
MESSAGES = Table(
    "messages",
    MessageRecord,
    of_session=True,
    key=("session_id", "rank"),
    indexes={"by_exchange": ("exchange_id", "rank")},
    searched=lambda message: {"search_text": _searched(text_of(message.parts))},
    modern=_with_marks,
)
KPI_RECORDS = WholeTable(
    "kpi_records",
    KpiRecord,
    of_session=False,
    label="KPI records",
    key=("exchange_id",),
    columns=("exchange_id", "user_id", "started_at"),
    user="user_id",
    time="started_at",
    indexes={"by_time": ("started_at",), "by_user": ("user_id", "started_at")},
)

ITEMS = Table(
    "items",
    ItemRecord,
    of_session=False,
    user="owner",
    indexes={
        "by_time": ("owner", "-updated_at", "id"),
        "by_namespace": ("owner", "namespace"),
        "by_size": ("owner", "value_bytes"),
    },
)

ATTACHMENTS = Table(
    "attachments",
    AttachmentRecord,
    of_session=False,
    user="user_id",
    indexes={
        "by_room": ("user_id", "room"),
        "by_session": ("session_id", "id"),
        "stale": ("state", "session_id", "created_at"),
    },
)

PARTIAL_PIECES = Table(
    "partial_pieces",
    PartialPiece,
    of_session=True,
    label="pieces of unfinished texts",
    indexes={"by_exchange": ("exchange_id", "owner", "number")},
)

_Indexes = dict[str, tuple[str, ...]]

_OF_RECORDS: _Indexes = {
    **{f"by_index_{number}": (f"index_{number}",) for number in range(1, INDEXES + 1)},
    "by_version": ("kind", "-version", "layout"),
    "by_age": ("kind", "updated_at"),
    "by_user": ("user_id", "id"),
    "by_searched": ("searched",),
}
_UNIQUE_OF_RECORDS = tuple(f"unique_{number}" for number in range(1, UNIQUE_INDEXES + 1))


def _records(name: str, label: str, *, of_session: bool) -> Table[ApplicationRecord]:
    return Table(
        name,
        ApplicationRecord,
        of_session=of_session,
        label=label,
        user="user_id",
        indexes=_OF_RECORDS,
        unique=_UNIQUE_OF_RECORDS,
        lazy=True,
    )


APPLICATION_RECORDS = _records("application_records", "records of applications", of_session=False)
SESSION_APPLICATION_RECORDS = _records(
    "session_application_records", "records of applications in sessions", of_session=True
)
RECORDS_TABLES = (APPLICATION_RECORDS, SESSION_APPLICATION_RECORDS)
"""The tables of the records of applications."""

_BY_TIME: _Indexes = {"by_time": ("-at", "-id")}
_OF_SESSION: _Indexes = _BY_TIME | {"by_session": ("session_id", "-at", "-id"), "by_user": ("user_id", "-at", "-id")}
_BY_EXCHANGE: _Indexes = {"by_exchange": ("exchange_id", "-at", "-id")}
_SUMMED = ("currency", "cost", "input_tokens", "output_tokens")
"""Behind the other columns of an index, so that a sum reads nothing but the index."""

AUDITS = Table(
    "message_audit",
    AuditRecord,
    of_session=True,
    label="audits",
    user="user_id",
    time="at",
    indexes=_OF_SESSION | _BY_EXCHANGE,
)
EXTRACTIONS = Table("extractions", ExtractionRecord, of_session=True, user="user_id", time="at", indexes=_OF_SESSION)
TOOL_CALLS = Table(
    "tool_calls",
    ToolCallRecord,
    of_session=True,
    label="tool calls",
    user="user_id",
    time="at",
    indexes=_OF_SESSION | _BY_EXCHANGE | {"by_state": ("state", "-at", "-id")},
)
ACTIVITIES = Table(
    "activities",
    ActivityRecord,
    of_session=True,
    user="user_id",
    indexes=_OF_SESSION | {"by_place": ("exchange_id", "seq")},
)
PROMPTS = Table(
    "prompts",
    PromptRecord,
    of_session=True,
    user="user_id",
    time="at",
    indexes=_OF_SESSION | _BY_EXCHANGE,
)
SUMMARIES = Table("summaries", SummaryRecord, of_session=True, user="user_id", time="at", indexes=_OF_SESSION)
MODULE_ERRORS = Table(
    "module_errors",
    ModuleErrorRecord,
    of_session=False,
    label="failures of modules",
    time="at",
    indexes=_BY_TIME | _BY_EXCHANGE,
)
USAGE = Table(
    "usage",
    UsageRecord,
    of_session=False,
    user="user_id",
    label="usage records",
    time="at",
    renamed={"group": "user_group"},
    indexes=_BY_TIME
    | _BY_EXCHANGE
    | {
        "by_user": ("user_id", "-at", "-id", *_SUMMED),
        "by_group": ("user_group", "-at", "-id", *_SUMMED),
        "by_session": ("session_id", "-at", "-id"),
    },
)
ADMIN_READS = Table(
    "admin_reads",
    AdminReadRecord,
    of_session=False,
    label="reads of admins",
    time="at",
    indexes=_BY_TIME | {"by_user": ("user_id", "-at", "-id"), "by_subject": ("subject", "-at", "-id")},
)
FEEDBACK = Table(
    "feedback",
    FeedbackRecord,
    of_session=True,
    user="user_id",
    time="at",
    indexes=_OF_SESSION | {"by_agent": ("agent_id", "-at", "-id"), "by_rating": ("rating", "-at", "-id")},
)
SHARES = Table(
    "shares",
    ShareRecord,
    of_session=True,
    user="user_id",
    time="expires_at",
    indexes=_OF_SESSION | {"by_expiry": ("expires_at", "-at", "-id")},
)

AGENT_VERSIONS = Table(
    "agent_versions",
    AgentVersionRecord,
    of_session=False,
    label="versions of agents",
    indexes={"by_agent": ("agent_id", "-version")},
)
JOURNAL_MARKS = Table("journal_marks", JournalMark, of_session=False, label="marks of journals", key=("journal_id",))
DELETIONS = Table("user_deletions", UserDeletion, of_session=False, label="deletions of users", key=("user_id",))

TRAIL: dict[type[Any], Table[Any]] = {
    table.record: table
    for table in (
        AUDITS,
        EXTRACTIONS,
        TOOL_CALLS,
        ACTIVITIES,
        PROMPTS,
        SUMMARIES,
        MODULE_ERRORS,
        USAGE,
        ADMIN_READS,
        FEEDBACK,
        SHARES,
    )
}
"""The tables of the trail, by their record."""

TABLES: list[Table[Any]] = [
    SESSIONS,
    EXCHANGES,
    MESSAGES,
    KPI_RECORDS,
    ITEMS,
    ATTACHMENTS,
    PARTIAL_PIECES,
    APPLICATION_RECORDS,
    SESSION_APPLICATION_RECORDS,
    *TRAIL.values(),
    AGENT_VERSIONS,
    DELETIONS,
    JOURNAL_MARKS,
]
"""All tables, in the order of reports."""


OUTLIVE_USERS = (MODULE_ERRORS, ADMIN_READS, AGENT_VERSIONS, DELETIONS, JOURNAL_MARKS)
"""The tables whose rows stay when a user's data are deleted: they hold nothing that was said in a session."""


def written_at(table: Table[Any]) -> str | None:
    """The column that says when a row was last written, as far as rows do; None if they don't."""
    return next((name for name in _WRITTEN_AT if name in table.names or name == table.time), None)


_WRITTEN_AT = ("updated_at", "at", "started_at", "created_at")


def session_tables() -> list[Table[Any]]:
    """The tables whose rows are deleted with their session."""
    return [table for table in TABLES if table.of_session]


def records_table(*, of_session: bool) -> Table[ApplicationRecord]:
    """The table of the records of applications that belong to sessions, or of all others."""
    return SESSION_APPLICATION_RECORDS if of_session else APPLICATION_RECORDS


def table_of(record: ApplicationRecord) -> Table[ApplicationRecord]:
    """The table of this record of an application."""
    return records_table(of_session=record.session_id is not None)


def is_trail(table: Table[Any]) -> bool:
    return table.record in TRAIL
