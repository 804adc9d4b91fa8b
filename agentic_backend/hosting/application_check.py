"""Whether an application can start, and finds what it needs, for `agentic-backend validate --deep`.

Its records are in a database that exists only for this: nothing of the server's own is changed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.run.authors_calls import AuthorsCalls, CallFailed
from agentic_backend.application_services import ApplicationServices
from agentic_backend.config.checks import CheckFailed
from agentic_backend.hosting.loading import LoadedApplication
from agentic_backend.hosting.offered_services import offered_services
from agentic_backend.kpi import Kpi
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.records.layout import NewerRecord
from agentic_backend.stores.opening import open_sqlite

_CLOSE_S, _GIVEN_UP_S, _STORE_S = 1.0, 0.1, 5.0
# The part of the time limit that each of two steps may take.
_PART = 0.4


async def check_application(loaded: LoadedApplication, models: ChatModels, limit_s: float) -> str:
    """Start it, have it check what it needs, and close it. Raises CheckFailed."""
    application, fields = loaded.application, {"application": loaded.id}
    author = AuthorsCalls(f"application:{loaded.id}")
    failed: list[str] = []

    async def start() -> None:
        application.services = services
        await application.start()

    async def step(name: str, method: Callable[[], Awaitable[None]], timeout_s: float) -> None:
        try:
            await author.done(method, timeout_s, fields)
        except CallFailed as error:
            failed.append(f"{name}: {error.error}{f' at {error.where}' if error.where else ''}")

    async with AsyncExitStack() as stack:
        services = await _services(loaded, models, stack)
        await step("start", start, _PART * limit_s)
        if not failed:
            await step("check", lambda: application.check(), _PART * limit_s)
        await step("close", lambda: application.aclose(), _CLOSE_S)
        await author.aclose(_GIVEN_UP_S)
    if failed:
        raise CheckFailed("; ".join(failed), "see to what it needs")
    return f"version {loaded.version} starts, and has what it needs"


async def _services(loaded: LoadedApplication, models: ChatModels, stack: AsyncExitStack) -> ApplicationServices:
    directory = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
    store = await stack.enter_async_context(aclosing(await open_sqlite(directory / "records.sqlite3", _STORE_S)))
    await store.open_application_records()
    kpi = Kpi()
    ledger = await stack.enter_async_context(aclosing(UsageLedger(store, Prices(), kpi)))
    services = offered_services(loaded, store, models, ledger, kpi.applications)
    await stack.enter_async_context(aclosing(services.workers))
    return services


def check_records(stored: Mapping[str, int], applications: Sequence[LoadedApplication]) -> str:
    """What there is to say of the kinds of records that are `stored`, with their newest version.

    Raises CheckFailed if an application can't read the records of one.
    """
    known = {layout.id: layout.kind.version for loaded in applications for layout in loaded.layouts}
    for kind, version in stored.items():
        if kind in known and version > known[kind]:
            raise CheckFailed(str(NewerRecord(kind, version, known[kind])))
    left = ", ".join(sorted(kind for kind in stored if kind not in known))
    return f"; records that no application declares stay: {left}" if left else ""
