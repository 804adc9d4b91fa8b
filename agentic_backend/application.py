"""The public surface of applications: everything that an application may import of the server.

An application is a class in an installed package, found by its class path in the setting `applications` or by the entry
point group `agentic_backend.applications`. docs/applications.md shows how to write one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, BinaryIO, ClassVar, Literal, TypeVar, cast

from langchain.agents.middleware import AgentMiddleware
from pydantic import BaseModel, ConfigDict

from agentic_backend.agents.models.worker_embedder import WorkerEmbedder
from agentic_backend.agents.parts import LinkPart, PartKind, V, emit_parts
from agentic_backend.agents.permissions import needs
from agentic_backend.agents.runtime_context import current_context
from agentic_backend.application_services import ApplicationServices, Purpose
from agentic_backend.auth.user import User
from agentic_backend.config.yaml.checked_yaml import checked_yaml
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem
from agentic_backend.config.yaml.validation_problems import rule_broken
from agentic_backend.errors import (
    AgenticError,
    AgentNotFound,
    AgentUnavailable,
    ApplicationUnavailable,
    ApprovalRequired,
    AttachmentNotFound,
    BadFrame,
    Blocked,
    BudgetExceeded,
    ContentFiltered,
    ContextTooLong,
    DocumentUnreadable,
    Forbidden,
    LimitReached,
    MessageTooLarge,
    ModelError,
    ModelNotFound,
    ModelQuota,
    ModelRefusedKey,
    ModelTimeout,
    NotFound,
    Overloaded,
    RateLimited,
    RecordConflict,
    SessionNotFound,
    StoreUnavailable,
)
from agentic_backend.extraction.document import Block, Document, Line, Page, Place
from agentic_backend.policy.hook_context import HookContext, Point
from agentic_backend.policy.hook_result import (
    CONTINUE,
    Audit,
    Extraction,
    HookResult,
    Modifications,
    blocked,
)
from agentic_backend.policy.usage.embedding import Embedded, EmbeddingEstimate
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.protocol.views import AttachmentView
from agentic_backend.records.kinds import Index, Kind, R, Record, Vector, Vectors, Words
from agentic_backend.records.readable_records import Found, RecordPage, Stored
from agentic_backend.records.records import OwnRecords, RecordsOfKind
from agentic_backend.sessions.text_reviews import ReviewedText
from agentic_backend.stores.protocol.application_records import RecordWrite
from agentic_backend.transports.rest.query_string import PageSize, Query
from agentic_backend.transports.rest.upload import Upload
from agentic_backend.worker_processes.worker import Worker

__all__ = [
    "CONTINUE",
    "AgentNotFound",
    "AgentUnavailable",
    "AgenticError",
    "Application",
    "ApplicationSettings",
    "ApplicationUnavailable",
    "ApprovalRequired",
    "AttachmentNotFound",
    "AttachmentView",
    "Audit",
    "BadFrame",
    "Block",
    "Blocked",
    "BudgetExceeded",
    "Call",
    "ChatMessage",
    "Chore",
    "Command",
    "ConfigError",
    "ConfigProblem",
    "ContentFiltered",
    "ContextTooLong",
    "Document",
    "DocumentUnreadable",
    "Embedded",
    "EmbeddingEstimate",
    "Extraction",
    "Forbidden",
    "Found",
    "Frame",
    "Hook",
    "HookContext",
    "HookResult",
    "Index",
    "Kind",
    "LimitReached",
    "Line",
    "LinkPart",
    "MessageTooLarge",
    "Metric",
    "ModelError",
    "ModelNotFound",
    "ModelQuota",
    "ModelRefusedKey",
    "ModelTimeout",
    "Modifications",
    "NotFound",
    "Overloaded",
    "OwnRecords",
    "Page",
    "PageSize",
    "Panel",
    "PartKind",
    "Place",
    "Point",
    "Preview",
    "Purpose",
    "Query",
    "RateLimited",
    "Record",
    "RecordConflict",
    "RecordPage",
    "RecordWrite",
    "RecordsOfKind",
    "ReviewedText",
    "SessionNotFound",
    "StoreUnavailable",
    "Stored",
    "Upload",
    "User",
    "Value",
    "Vector",
    "Vectors",
    "Words",
    "Worker",
    "WorkerEmbedder",
    "absent",
    "application_of",
    "blocked",
    "checked_yaml",
    "current_context",
    "emit_parts",
    "needs",
    "rule_broken",
]


class ApplicationSettings(BaseModel):
    """The base of an application's own settings: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Call:
    """A REST call below `/apps/{id}`, or at the root. Its handler's signature is its contract.

    `user` is who calls, and has to be there; `body`, a Frame, is the JSON body, or `upload`, an Upload, the file of a
    multipart body; `query`, a Query, is the query string; every other parameter is a part of the path. The handler
    answers with a Value, or with None, which is 204; one that yields Values streams them as server-sent events. Its
    name is the operation's id, its docstring the description.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """Below `/apps/{id}`, such as `/notes/{note}`."""
    handler: Callable[..., Awaitable[Value | None] | AsyncIterator[Value]]
    _: KW_ONLY
    status: int = 200
    """Of an answer with a body."""
    errors: Sequence[type[AgenticError]] = ()
    """Those that the handler raises, beside the ones that any call may raise."""
    roles: frozenset[str] = frozenset()
    """Who may call: users with one of these roles. Empty: everybody who is signed in."""
    permissions: Sequence[str] = ()
    """What users need for it, of the application's `permissions`; the settings say what users with each role have."""
    timeout_s: float = 30
    """How long the handler may take, or each event of it, in seconds, at most 600."""
    at_root: bool = False
    """Whether the path is no path below `/apps/{id}`, but one of its own, such as `/api/run`."""


@dataclass(frozen=True)
class Hook:
    """What an application does at a point of sessions and exchanges, as a module does (docs/policy.md).

    `work` is an async method, and is told the HookContext. It answers with a HookResult; CONTINUE changes nothing. Its
    name is that of the hook. A hook that fails again and again is not called for a while.
    """

    point: Point
    work: Callable[[HookContext], Awaitable[HookResult]]
    _: KW_ONLY
    agents: Literal["shipped", "tuned", "all"] = "shipped"
    """For which it is called: those that the application ships, those whose entries speak to it, or all."""
    timeout_s: float = 5
    """How long it may take, in seconds, at most 60."""
    on_failure: Literal["continue", "block"] = "continue"
    """Whether a text that it failed to look at goes on, or is blocked."""
    priority: int = 50
    """From 1 to 99: hooks and modules run from the lowest to the highest."""


@dataclass(frozen=True)
class Chore:
    """Work that comes back. Of several instances on one store one at a time does it, but for rare moments two."""

    work: Callable[[], Awaitable[None]]
    """An async method, whose name is the chore's."""
    _: KW_ONLY
    every_s: float
    """How long it rests, in seconds, from 1 to 86,400."""
    timeout_s: float = 30
    """How long it may take, in seconds, at most 50."""


@dataclass(frozen=True)
class Metric:
    """A metric of an application's, which Prometheus sees as `chat_app_{id}__{name}`; a counter's ends with `_total`.

    Each `-` of the id is a `_` there. It has at most a hundred series in each process: what comes with other labels is
    counted as `other`.
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    _: KW_ONLY
    buckets: tuple[float, ...] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
    """Of a histogram."""
    together: Literal["sum", "max", "min"] = "sum"
    """How the values of a gauge in several workers of one server become one."""


@dataclass(frozen=True)
class Command:
    """A command, `agentic-backend {name of the handler}`, which runs beside a server or without one.

    What its handler is given is what is typed: a `str`, `int`, `float` or `Path`; behind `*` an option, a `bool` a
    flag, and `user: User` in whose name. Its docstring is the help.
    """

    handler: Callable[..., Awaitable[None]]


@dataclass(frozen=True)
class Panel:
    """A document of the application's own in the page, in a sandboxed frame that reaches only what the page allows.

    It speaks JSON-RPC with the page in the dialect of MCP Apps (docs/applications.md).
    """

    name: str
    """Lower-case letters, digits and `-`."""
    title: str
    """What people open it by."""
    file: str
    """An HTML file beside the module of the class that declares it, with all that it needs in it, of at most 1 MiB."""
    _: KW_ONLY
    place: Literal["beside", "instead", "sidebar"] | PartKind[Any] = "beside"
    """Beside the conversation, instead of it, in the sidebar, or wherever a part of this kind is shown."""
    may: frozenset[Literal["ask", "decide", "follow"]] = frozenset()
    """What it may do in the conversation, beside calling its application; what a person has not begun is refused."""
    roles: frozenset[str] = frozenset()
    """Who sees it: users with one of these roles. Empty: everybody who is signed in."""
    preview: str | None = None
    """The name of a POST call that tells in words what a link opens in it, as a Preview. Its body is the link's
    `panel_data`.
    """


class Preview(Value):
    """What the page shows of something that a link opens in a panel, before it is opened."""

    text: str
    """Plain text."""


A = TypeVar("A", bound="Application")


class Application:
    """The base class of an application, which declares what it adds to a server.

    The server makes it once, when it reads its configuration, before its workers: `__init__` opens nothing. Whatever it
    raises, wherever, keeps this application alone from serving.
    """

    id: ClassVar[str]
    """Lower-case letters, digits and `-`; its calls are below `/apps/{id}`."""
    title: ClassVar[str]
    """The name that people see."""
    version: ClassVar[str]
    """Such as `1.0.0`."""
    Settings: ClassVar[type[ApplicationSettings]] = ApplicationSettings
    """The model of its settings."""
    Tuning: ClassVar[type[ApplicationSettings] | None] = None
    """The model of what agents' entries say to it, as `tuning.{id}`; each field has a default."""
    catalog: ClassVar[str | None] = None
    """Its agents: the name of a file beside the module of the class, in the form of an agents catalog."""
    records: ClassVar[Sequence[Kind[Any]]] = ()
    """The kinds of its records."""
    metrics: ClassVar[Sequence[Metric]] = ()
    """Its metrics."""
    parts: ClassVar[Sequence[PartKind[Any]]] = ()
    """The forms of its own in which it shows something in the chat."""
    panels: ClassVar[Sequence[Panel]] = ()
    """Its places in the page."""
    permissions: ClassVar[Mapping[str, str]] = {}
    """What its calls and tools may need of users, such as `notes:write:self`, and what each is for."""
    services: ApplicationServices | None = None
    """The server sets it before `start`, for the methods below."""

    def __init__(self, settings: Any) -> None:
        """`settings` is a `Settings`. Raises ConfigError if a file that belongs to it is wrong."""
        self.settings = settings

    def calls(self) -> Sequence[Call]:
        """Its REST calls."""
        return ()

    def hooks(self) -> Sequence[Hook]:
        """What it does at points of sessions and exchanges."""
        return ()

    def middleware(self) -> Sequence[AgentMiddleware[Any, Any, Any]]:
        """LangChain's middleware of its own, for the agents whose entries speak to it. All runs share it."""
        return ()

    def chores(self) -> Sequence[Chore]:
        """Its work that comes back."""
        return ()

    def commands(self) -> Sequence[Command]:
        """Its commands for operators."""
        return ()

    def workers(self) -> Sequence[Worker]:
        """Its processes for code that needs a processor for long."""
        return ()

    def embedder(self) -> WorkerEmbedder | None:
        """Its own embedding model, which `embed` uses where the settings have no `default` one."""
        return None

    def records_of(self, kind: Kind[R]) -> RecordsOfKind[R]:
        """Its stored records of this kind, which `records` has. Raises ApplicationUnavailable before `start`."""
        return self._services().records.of(kind)

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        """Do all of these writes of its records, or none of them: see `Records.write`."""
        await self._services().records.write(writes)

    async def ask_model(
        self,
        system: str,
        text: str,
        *,
        user: User | None = None,
        model: str | None = None,
        purpose: Purpose = "application",
    ) -> str:
        """What a model of the settings, or the default one, answers to a text under a system prompt.

        `user` pays for it; without one, the user of the run, or of the exchange that a hook is called for. Raises
        BudgetExceeded, AgentUnavailable if there is no such model, and the errors of models, such as ModelTimeout.
        """
        return await self._services().ask_model(system, text, user=user, model=model, purpose=purpose)

    async def review(
        self,
        text: str,
        *,
        user: User,
        agent_id: str,
        point: Literal[Point.BEFORE_AI, Point.AFTER_AI, Point.TOOL_RESULT],
        question: str = "",
        tool: str = "",
        within: str | None = None,
    ) -> ReviewedText:
        """What modules leave of a text that stands in no exchange, as if this agent were asked it, or said it.

        A call that asks a model in the name of a person has what they say looked at (BEFORE_AI), what the model is
        given beside it (TOOL_RESULT, with the name of the `tool` that modules know it by), and what it answers to the
        `question` (AFTER_AI). Texts `within` the same conversation name it the same. Nothing that is found is stored.

        Raises Blocked if a module has blocked the text, AgentNotFound, AgentUnavailable and Forbidden if the user may
        not ask the agent, and StoreUnavailable. In commands and in `check` it raises ApplicationUnavailable.
        """
        return await self._services().review(
            text, user=user, agent_id=agent_id, point=point, question=question, tool=tool, within=within
        )

    async def embed(
        self,
        texts: Sequence[str],
        *,
        user: User | None = None,
        model: str | None = None,
        kind: Literal["query", "document"] = "document",
    ) -> Embedded:
        """A vector for each text, by an embedding model of the settings, or by the application's `embedder`.

        `model` is a name in the settings, or the embedder's model; without it, that is `default` of the settings, and
        where there is none, the embedder. `kind` says whether texts are looked for or found. Up to 2,000 texts with
        4,000,000 characters; they go in batches, each of which is a call in the usage with the purpose `embedding`.
        `user` pays, as for `ask_model`.

        Raises BudgetExceeded, AgentUnavailable if there is no such model, ContextTooLong if a text is, the errors of
        models, ApplicationUnavailable of a worker, and ValueError for what are no texts. All vectors come, or none.
        """
        return await self._services().embed(texts, user=user, model=model, kind=kind)

    async def estimate_embedding(
        self, texts: Sequence[str] = (), *, model: str | None = None, size: int = 0
    ) -> EmbeddingEstimate:
        """How many tokens and calls it would take to embed so many texts, and what they would cost, if known.

        `size` are the bytes of further texts, of which no more is known. The tokens are estimated, at four bytes each.
        Raises AgentUnavailable, ContextTooLong and ValueError as `embed`.
        """
        return await self._services().estimate_embedding(texts, model, size)

    def embedding_models(self) -> Mapping[str, str]:
        """The embedding models of the settings: by name what each is now, such as `text-embedding-3-small`.

        Where this has changed, its vectors can't be compared with those that it made before.
        """
        return self._services().embedding_models()

    async def in_worker(self, worker: str, method: str, /, *arguments: object, timeout_s: float = 30) -> Any:
        """What a method of the value that this worker has made answers to the arguments, in the worker's process.

        Both are data: None, bool, int of 64 bits, finite float, str, bytes, and lists, tuples and dicts by str of
        these; tuples come as lists. They may have 4 MiB as JSON, and 32 MiB of `bytes` beside it. `timeout_s`, at most
        600, is for waiting and work together. A process that works longer on one call is ended and started anew.

        Raises ApplicationUnavailable, which is retryable unless the method itself has raised: if the process dies, or
        can't be started, if the time is up, and if too many calls wait. Raises TypeError for what is no data,
        LookupError if `workers` do not have it, and ValueError for an odd time or name.
        """
        return await self._services().in_worker(worker, method, arguments, timeout_s)

    async def call(
        self,
        application: str,
        operation: str,
        user: User,
        *,
        parts: Mapping[str, str] | None = None,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """What another application's call answers this user, as JSON has it; None where it has no body.

        `operation` is the name of its handler, `parts` are those of its path. Raises ApplicationUnavailable if there is
        no such application or it does not serve, NotFound if it has no such call, and what the call refuses with. In
        commands and in `check` no other application can be called.
        """
        return await self._services().call(application, operation, user, parts or {}, query or {}, body)

    async def transcript(
        self, user: User, session_id: str, *, after_rank: int = -1, limit: int = 50
    ) -> Sequence[ChatMessage]:
        """Messages of the user's session after a rank, by rank: at most `limit`, up to 200, and about a megabyte.

        Raises SessionNotFound, also for another user's.
        """
        return await self._services().transcript(user, session_id, after_rank, limit)

    def require_approval(self, title: str, data: Mapping[str, Any]) -> None:
        """Have the person who makes this call approve of what is done next; it goes on once they have.

        They are shown the title and the data, which are JSON's values, whole. Raises ApprovalRequired until they have
        approved of exactly these, also where no call is made for a person, and ValueError for what can't be shown.
        """
        self._services().require_approval(title, data)

    async def read_document(self, name: str, data: bytes | BinaryIO, *, user: User | None = None) -> Document:
        """The text of a file, with its structure: Markdown, text, source code, CSV, HTML, PDF, DOCX or XLSX.

        What it is its content tells, and `name`, such as `notes.md`, where the content can't. It is read in a process
        of its own, for a minute at most: up to 64 MiB, 4,000,000 characters, 2,000 pages. Each user and each
        application has one turn at a time, `user` that of the user; four more wait, up to two minutes.

        Raises DocumentUnreadable, whose words say why, for instance that it is encrypted or that the server needs a
        package for its kind; RateLimited if no turn comes, Overloaded if no process can be started, and
        StoreUnavailable if there is no room on the disk.
        """
        return await self._services().reader.read(name, data, user)

    async def draw_page(self, data: bytes, number: int, *, user: User | None = None) -> bytes:
        """A page of a PDF, counted from 1, as people see it: a PNG of at most 2 MiB and 2.5 million pixels.

        It is drawn where `read_document` reads, in the same turns, and raises the same; DocumentUnreadable also for a
        file or a page that there is not.
        """
        return await self._services().reader.draw_page(data, number, user)

    async def attachments(self, user: User, session_id: str) -> Sequence[AttachmentView]:
        """The files that are attached in the user's session, the first ones first: at most 200.

        Raises SessionNotFound, also for another user's.
        """
        return await self._services().attachments(user, session_id)

    async def read_attachment(self, user: User, attachment_id: str) -> bytes:
        """The content of a file that the user has attached, of up to 64 MiB.

        Raises AttachmentNotFound, also for another user's, and MessageTooLarge.
        """
        return await self._services().read_attachment(user, attachment_id)

    def user_of_run(self) -> User:
        """The user for whom the caller runs: a tool, a node or the middleware of an agent.

        Their roles and groups are those with which they have asked. Raises LookupError outside of a run.
        """
        return self._services().user_of_run()

    def tuning_of(self, agent_id: str) -> Any:
        """What the entry of this agent says to it now, a `Tuning`; the defaults where it says nothing.

        Raises LookupError without a `Tuning`.
        """
        if self.Tuning is None:
            raise LookupError("the application has no 'Tuning'")
        return self.Tuning.model_validate(self._services().said(agent_id))

    def measure(self, metric: Metric, value: float = 1, /, **labels: str) -> None:
        """Add to a counter of `metrics`, set a gauge, or observe a histogram's value, with the labels that it has.

        Raises LookupError if `metrics` do not have it, and ValueError if the value or the labels are not the metric's.
        """
        self._services().measure(metric.name, value, labels)

    def show(self, kind: PartKind[V], value: V, text: str) -> None:
        """Show a value in the chat in this form, which `parts` has, and store it; in tools and nodes of an agent.

        It is shown where `emit_parts` shows a part. `text` says the same in words, in Markdown: for clients that don't
        know the form, exports and policy modules, which look at the words alone.

        Raises LookupError if `parts` do not have this kind, and ValueError if the value does not fit its model, or is
        larger than 2 MB with its words.
        """
        self._services().show(kind, value, text)

    def _services(self) -> ApplicationServices:
        if self.services is None:
            raise ApplicationUnavailable(f"The application '{self.title}' is not available.")
        return self.services

    async def start(self) -> None:
        """Open what it needs. Awaited once, beside the server, which refuses its calls until it has ended."""

    async def check(self) -> None:
        """Raise if something that it needs is not there. Awaited by `validate --deep`, after `start`."""

    async def forget(self, user_id: str) -> None:
        """Let go of what it holds of this user elsewhere than in its records: all of the user's data is being deleted.

        Awaited while it serves, for five minutes at most, before the user's records are deleted, those of sessions
        excepted, and again a minute later. Where it raises StoreUnavailable, the deletion comes again.
        """

    async def aclose(self) -> None:
        """Close what `start` opened. Awaited once, also after a `start` that failed."""


def application_of(kind: type[A]) -> A:
    """The application of this class that serves, for the tools, nodes and middleware of agents.

    Raises ApplicationUnavailable if it does not serve, and LookupError outside of a run.
    """
    found = current_context().applications.get(class_path_of(kind))
    if found is None:
        raise ApplicationUnavailable(f"The application '{kind.title}' is not available.")
    return cast(A, found)


def class_path_of(kind: type[Application]) -> str:
    # By its name: a reload imports modules of authors anew, and the application goes on.
    return f"{kind.__module__}:{kind.__qualname__}"
