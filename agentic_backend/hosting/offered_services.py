"""What a server offers to one application, put together."""

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.application_services import ApplicationServices, CallOfAnother, Measured
from agentic_backend.errors import ApplicationUnavailable
from agentic_backend.hosting.declared_parts import part_name
from agentic_backend.hosting.loading import LoadedApplication
from agentic_backend.kpi.groups.applications import ApplicationMetrics
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.records.records import Records
from agentic_backend.stores.base import Store


def offered_services(
    loaded: LoadedApplication,
    store: Store,
    models: ChatModels,
    ledger: UsageLedger,
    kpi: ApplicationMetrics,
    call: CallOfAnother | None = None,
) -> ApplicationServices:
    """The services of the application; once for each `kpi`, which has its metrics then.

    Without a `call` it can't call other applications.
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
    return ApplicationServices(Records(store, loaded.layouts), metrics, parts, store, models, ledger, call or _no_other)


async def _no_other(application: str, *_: object) -> None:
    raise ApplicationUnavailable(f"The application '{application}' can't be called from here.", retryable=False)
