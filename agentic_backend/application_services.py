"""ApplicationServices: what an application may use of its server, from `start` on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, BinaryIO, Literal, get_args

from langchain_core.messages import HumanMessage, SystemMessage
from pydantic_core import from_json, to_json

from agentic_backend.agents.models.chat_models import DEFAULT, ChatModels
from agentic_backend.agents.models.embedder import Embedder, Kind
from agentic_backend.agents.models.provider_failures import typed_failure
from agentic_backend.agents.parts import PartKind, V, emit_custom_part
from agentic_backend.agents.runtime_context import current_context
from agentic_backend.auth.user import User
from agentic_backend.errors import (
    AgenticError,
    AgentUnavailable,
    ApplicationUnavailable,
    AttachmentNotFound,
    MessageTooLarge,
)
from agentic_backend.extraction.document import Document
from agentic_backend.extraction.extractor import Bounds
from agentic_backend.kpi.groups.applications import Measure
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.module_services import current_payer
from agentic_backend.policy.usage.embedding import Embedded, Embedding, EmbeddingEstimate
from agentic_backend.policy.usage.usage_ledger import Payer, UsageLedger, may_pay
from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.protocol.views import AttachmentView
from agentic_backend.records.records import Records
from agentic_backend.sessions.access import owned_attachments, owned_messages
from agentic_backend.sessions.documents import Documents
from agentic_backend.sessions.text_reviews import ReviewedText, TextReviews
from agentic_backend.sessions.waiting.consent import require_consent
from agentic_backend.stores.base import Store
from agentic_backend.worker_processes.worker_calls import Workers

Purpose = Literal["application", "rewrite", "rerank", "judge", "grounding"]
"""What an application asks a model for, as the usage counts it."""

MOST_MESSAGES = 200
_BOUNDS = Bounds()


CallOfAnother = Callable[
    [str, str, User, Mapping[str, str], Mapping[str, str | None], Mapping[str, Any] | None], Awaitable[Any]
]


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric of the application's. `can_fall`: its values may be below 0."""

    labels: tuple[str, ...]
    can_fall: bool
    measure: Measure


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reads documents for one application."""

    documents: Documents
    application: str

    async def read(self, name: str, data: bytes | BinaryIO, user: User | None) -> Document:
        """See Application.read_document."""
        whose = self._whose(user)
        if not isinstance(name, str):
            raise TypeError("a document needs a name")
        if not isinstance(data, bytes | bytearray | memoryview):
            if _is_file(data):
                return await self.documents.read(data, name, _BOUNDS, whose)
            data = await asyncio.to_thread(_content_of, data)
        return await self.documents.read_bytes(bytes(data), name, _BOUNDS, whose)

    async def draw_page(self, data: bytes, number: int, user: User | None) -> bytes:
        """See Application.draw_page."""
        return await self.documents.draw_page(data, number, _BOUNDS, self._whose(user))

    def _whose(self, user: User | None) -> str:
        # No user's id has a space in front.
        return f" {self.application}" if user is None else user.id


class ApplicationServices:
    def __init__(
        self,
        application_id: str,
        records: Records,
        metrics: Mapping[str, Measured],
        parts: Mapping[str, tuple[str, PartKind[Any]]],
        store: Store,
        models: ChatModels,
        ledger: UsageLedger,
        call: CallOfAnother,
        said: Callable[[str], Mapping[str, Any]],
        reader: DocumentReader,
        workers: Workers,
        embedder: Embedder | None = None,
        reviews: TextReviews | None = None,
    ) -> None:
        """`metrics` are what measures them, by name; `parts` are its kinds by name, each with what clients know it
        by; `call` makes a call of another application (Application.call); `said` is what an agent's entry says to it;
        `workers` are its own, and the `embedder` is what embeds where the settings have no model.
        """
        self._id = application_id
        self.call = call
        self.said = said
        self.reader = reader
        self.records = records
        self.workers = workers
        self._metrics = metrics
        self._parts = parts
        self._store = store
        self._models = models
        self._ledger = ledger
        self._embedding = Embedding(ledger)
        self._embedder = embedder
        self._reviews = reviews

    async def ask_model(self, system: str, text: str, *, user: User | None, model: str | None, purpose: Purpose) -> str:
        """See Application.ask_model."""
        if purpose not in get_args(Purpose):
            raise ValueError(f"{purpose!r} is no purpose of an application's: {', '.join(get_args(Purpose))}")
        asked, messages = self._models.get(model), [SystemMessage(system), HumanMessage(text)]
        payer, budgets = _payer(user), self._ledger.budgets
        # The server has no budget.
        if payer.user_id:
            await budgets.check(payer.user_id, budgets.paying_group(payer.groups))
        try:
            answer = await self._ledger.ask(asked, messages, payer, purpose)
        except AgenticError:
            raise
        except Exception as error:
            # Each provider raises its own errors.
            raise typed_failure(error) from None
        return str(answer.text)

    async def embed(self, texts: Sequence[str], *, user: User | None, model: str | None, kind: Kind) -> Embedded:
        """See Application.embed."""
        return await self._embedding.embed(self._embedder_of(model), texts, _payer(user), kind)

    async def estimate_embedding(self, texts: Sequence[str], model: str | None, size: int) -> EmbeddingEstimate:
        """See Application.estimate_embedding."""
        return await self._embedding.estimate(self._embedder_of(model), texts, size)

    def embedding_models(self) -> Mapping[str, str]:
        """See Application.embedding_models."""
        return {name: model.version for name, model in self._models.embeddings.models.items()}

    def _embedder_of(self, model: str | None) -> Embedder:
        found = self._models.embeddings.models.get(model or DEFAULT)
        if found is not None:
            return found
        own = self._embedder
        if own is not None and model in (None, own.model):
            return own
        told = "No embedding model is configured." if model is None else f"There is no embedding model '{model}'."
        raise AgentUnavailable(told, retryable=False)

    async def review(
        self, text: str, *, user: User, agent_id: str, point: Point, question: str, tool: str, within: str | None
    ) -> ReviewedText:
        """See Application.review."""
        if self._reviews is None:
            raise ApplicationUnavailable("Modules can't look at texts here.", retryable=False)
        return await self._reviews.review(user, agent_id, point, text, question, tool, within)

    async def in_worker(self, worker: str, method: str, arguments: Sequence[object], timeout_s: float) -> Any:
        """See Application.in_worker."""
        return await self.workers.call(worker, _payer(None).user_id, method, arguments, timeout_s)

    async def transcript(self, user: User, session_id: str, after_rank: int, limit: int) -> Sequence[ChatMessage]:
        """See Application.transcript."""
        wanted = max(1, min(limit, MOST_MESSAGES))
        return (await owned_messages(self._store, user.id, session_id, after_rank, wanted))[1]

    def require_approval(self, title: str, data: Mapping[str, Any]) -> None:
        """See Application.require_approval. Raises ValueError."""
        try:
            shown = from_json(to_json(dict(data)))
        except (ValueError, TypeError, RecursionError):
            raise ValueError("require_approval: the data are no JSON") from None
        require_consent(self._id, title, shown)

    async def attachments(self, user: User, session_id: str) -> Sequence[AttachmentView]:
        """See Application.attachments."""
        return await owned_attachments(self._store, user.id, session_id)

    async def read_attachment(self, user: User, attachment_id: str) -> bytes:
        """See Application.read_attachment."""
        own = [each for each in await self._store.get_attachments([attachment_id]) if each.user_id == user.id]
        if not own:
            raise AttachmentNotFound
        if own[0].size > _BOUNDS.bytes:
            raise MessageTooLarge(f"The attachment has more than {_BOUNDS.bytes:,} bytes.")
        return b"".join([piece async for piece in self._store.attachment_content(attachment_id)])

    def user_of_run(self) -> User:
        """See Application.user_of_run. Raises LookupError."""
        record = current_context().record
        if record is None:
            raise LookupError("There is no user: this code runs outside of an exchange.")
        asked = record.policy
        if asked is None:
            return User(record.user_id, record.user_id)
        roles, groups = frozenset(asked.roles), frozenset(asked.groups)
        return User(record.user_id, asked.name, roles, groups=groups, scope=dict(asked.scope))

    def measure(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """See Application.measure. Raises LookupError and ValueError."""
        measured = self._metrics.get(name)
        if measured is None:
            raise LookupError(f"the application's 'metrics' do not have {name!r}")
        if not (isfinite(value) and (value >= 0 or measured.can_fall)):
            raise ValueError(f"{name}: {value} is no value of this metric")
        if {*labels} != {*measured.labels} or not all(isinstance(each, str) for each in labels.values()):
            raise ValueError(f"{name} needs the labels {', '.join(measured.labels) or 'none'}")
        measured.measure(value, labels)

    def show(self, kind: PartKind[V], value: V, text: str) -> None:
        """See Application.show. Raises LookupError and ValueError."""
        # By its name: a reload imports an author's modules anew, and the application goes on with its own classes.
        found = self._parts.get(getattr(kind, "name", ""))
        if found is None:
            raise LookupError(f"the application's 'parts' do not have {kind!r}")
        emit_custom_part(*found, value, text)


def _content_of(data: Any) -> bytes:
    """Raises TypeError if this is nothing that bytes can be read from."""
    content = data.read(_BOUNDS.bytes + 1) if hasattr(data, "read") else None
    if not isinstance(content, bytes):
        raise TypeError("a document is bytes, or a file that is open for reading bytes")
    return content


def _is_file(data: Any) -> bool:
    """Whether it is a file of the operating system, which another process can read from its beginning."""
    try:
        return bool(data.seekable() and "b" in data.mode and data.fileno() >= 0)
    except (OSError, AttributeError, TypeError, ValueError):
        return False


def _payer(user: User | None) -> Payer:
    if user is not None:
        return Payer(user.id, may_pay(user.groups, user.scope))
    try:
        record = current_context().record
    except LookupError:
        record = None
    return current_payer() if record is None else Payer.of(record)
