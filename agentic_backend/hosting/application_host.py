"""ApplicationHost: the applications of a server, started beside it, with what they add to it.

`open_app` owns it. An application that starts slowly holds nobody up.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.application import class_path_of
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.exchange.instance import Instance
from agentic_backend.hosting.calls_between import CallsBetween
from agentic_backend.hosting.declared_work import DeclaredChore
from agentic_backend.hosting.event_streams import OpenStreams
from agentic_backend.hosting.hosted_application import HostedApplication
from agentic_backend.hosting.loading import Applications
from agentic_backend.hosting.offered_services import offered_services
from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import running
from agentic_backend.policy.hooks.modules_file import ModuleSpec
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.record_search import RecordSearch
from agentic_backend.sessions.documents import Documents
from agentic_backend.sessions.text_reviews import TextReviews
from agentic_backend.sessions.upkeep.housekeeping import EVERY_S, Chore, Housekeeping
from agentic_backend.stores.base import Store
from agentic_backend.transports.calls.users.info_api import ApplicationView
from agentic_backend.transports.rest.operation import Operation


class ApplicationHost:
    def __init__(
        self,
        applications: Applications,
        store: Store,
        limits: LimitsSettings,
        kpi: Kpi,
        streams: OpenStreams | None = None,
        permissions: PermissionsSettings | None = None,
    ) -> None:
        self._store = store
        self._kpi = kpi
        # One for all, so that they share one bound of memory.
        self._search = RecordSearch(store, PartitionCache(most_bytes=limits.search_bytes))
        self._hosted = [HostedApplication(loaded, store, kpi, streams, permissions) for loaded in applications.loaded]
        self._between = CallsBetween({hosted.loaded.id: hosted for hosted in self._hosted}, limits.frame_bytes, kpi)
        self.middleware = applications.middleware
        """That of all, by the ids of the applications."""
        self._starts: list[asyncio.Task[None]] = []
        self.instances: dict[str, object] = {}
        """Those that serve now, by the class paths of their classes."""
        for class_path in applications.refused:
            kpi.applications.up(class_path, is_up=False)

    def serving(self, user: User) -> list[ApplicationView]:
        """Those that serve now, as this user sees them."""
        return [hosted.view_of(user) for hosted in self._hosted if hosted.is_serving]

    def operations(self) -> list[Operation]:
        """The operations of all that were loaded; those of one that does not serve are refused."""
        return [operation for hosted in self._hosted for operation in hosted.operations()]

    def modules(self) -> list[ModuleSpec]:
        """The hooks of all, as modules."""
        return [module for hosted in self._hosted for module in hosted.modules()]

    @asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Close the applications when the context is left."""
        try:
            yield
        finally:
            # A start that is cut short is closed like the others.
            for start in self._starts:
                start.cancel()
            await self.have_started()
            self.instances.clear()
            await asyncio.gather(*(hosted.aclose() for hosted in self._hosted))

    def start(
        self,
        models: ChatModels,
        ledger: UsageLedger,
        agents: AgentManager,
        documents: Documents,
        reviews: TextReviews,
    ) -> None:
        """Start the applications beside what goes on. The context `closing` must be open."""
        starts = (self._start(hosted, models, ledger, agents, documents, reviews) for hosted in self._hosted)
        self._starts = [asyncio.create_task(start) for start in starts]

    async def have_started(self) -> None:
        """Wait until the start of each has ended, well or not."""
        await asyncio.gather(*self._starts, return_exceptions=True)

    async def forget(self, user_id: str) -> None:
        """Have those that serve let go of what they hold of a user elsewhere. Raises StoreUnavailable."""
        for hosted in self._hosted:
            await hosted.forget(user_id)

    async def _start(
        self,
        hosted: HostedApplication,
        models: ChatModels,
        ledger: UsageLedger,
        agents: AgentManager,
        documents: Documents,
        reviews: TextReviews,
    ) -> None:
        metrics, call, said = self._kpi.applications, self._between.call, agents.said_to_applications
        services = offered_services(
            hosted.loaded,
            self._store,
            models,
            ledger,
            metrics,
            call=call,
            said=said,
            search=self._search,
            documents=documents,
            reviews=reviews,
        )
        await hosted.start(services)
        if hosted.is_serving:
            application = hosted.loaded.application
            self.instances[class_path_of(type(application))] = application

    @asynccontextmanager
    async def doing_chores(self, instance: Instance) -> AsyncIterator[None]:
        """Do the chores of all while the context is open."""
        async with AsyncExitStack() as stack:
            for hosted in self._hosted:
                chores = [(_chore_of(hosted, chore), chore.every_s) for chore in hosted.loaded.chores]
                chores += [(chore, EVERY_S) for chore in hosted.upkeep()]
                for chore, every_s in chores:
                    housekeeping = Housekeeping(instance, self._store, self._kpi, chore, every_s=every_s)
                    await stack.enter_async_context(running(housekeeping.run()))
            yield


def _chore_of(hosted: HostedApplication, declared: DeclaredChore) -> Chore:
    async def work(_: int) -> int:
        await hosted.do(declared)
        return 0

    return Chore(declared.name, work, lambda: hosted.is_serving)
