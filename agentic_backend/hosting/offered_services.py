"""What a server offers to one application, put together."""

from collections.abc import Callable, Mapping
from typing import Any

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.models.worker_embedder import EmbeddingInWorker
from agentic_backend.application_services import ApplicationServices, CallOfAnother, DocumentReader, Measured
from agentic_backend.errors import ApplicationUnavailable
from agentic_backend.hosting.declared_parts import part_name
from agentic_backend.hosting.loading import LoadedApplication
from agentic_backend.kpi.groups.applications import ApplicationMetrics
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.records.record_search import RecordSearch
from agentic_backend.records.records import Records
from agentic_backend.sessions.documents import Documents
from agentic_backend.sessions.text_reviews import TextReviews
from agentic_backend.stores.base import Store
from agentic_backend.worker_processes.worker_calls import Workers


def offered_services(
    loaded: LoadedApplication,
    store: Store,
    models: ChatModels,
    ledger: UsageLedger,
    kpi: ApplicationMetrics,
    *,
    call: CallOfAnother | None = None,
    said: Callable[[str], Mapping[str, Any]] = lambda agent_id: {},
    search: RecordSearch | None = None,
    documents: Documents | None = None,
    reviews: TextReviews | None = None,
) -> ApplicationServices:
    """The services of the application; once for each `kpi`, which has its metrics then.

    Without a `call` it can't call other applications. `said` is what an agent's entry says to applications, by their
    ids. The `search` and the `documents` are those of several applications, where there are others. Without `reviews`
    no module can look at a text.
    """
    metrics = {
        each.name: Measured(
            each.labels,
            each.type != "counter",
            kpi.declare(loaded.id, each.name, each.type, each.meaning, each.labels, each.buckets, each.together),
        )
        for each in loaded.metrics
    }
    parts = {kind.name: (part_name(loaded.id, kind), kind) for kind in loaded.parts}
    records = Records(store, loaded.layouts, search)
    workers = Workers(loaded.id, loaded.title, loaded.workers, kpi.workers)

    def said_to_it(agent_id: str) -> Mapping[str, Any]:
        own: Mapping[str, Any] = said(agent_id).get(loaded.id, {})
        return own

    reader = DocumentReader(documents or Documents(), loaded.id)
    embedder = None if loaded.embedder is None else EmbeddingInWorker(loaded.embedder, workers.call)
    return ApplicationServices(
        loaded.id,
        records,
        metrics,
        parts,
        store,
        models,
        ledger,
        call or _no_other,
        said_to_it,
        reader,
        workers,
        embedder,
        reviews,
    )


async def _no_other(application: str, *_: object) -> None:
    raise ApplicationUnavailable(f"The application '{application}' can't be called from here.", retryable=False)
