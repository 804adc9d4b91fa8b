"""DatabaseAgents: serves the agents of the database beside those of the catalog, and keeps up with their changes.

Each instance looks for changes by itself, every few seconds, so that it needs no broadcast; a broadcast only makes it
look at once. All is read and imported aside; then the event loop swaps it in one step.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from agentic_backend.agents.agent_manager import AgentManager, CatalogChange
from agentic_backend.agents.catalog.catalog_sources import ImportedEntry, Source
from agentic_backend.agents.catalog.database_entries import DatabaseEntries
from agentic_backend.config.topics.database_agents import DatabaseAgentsSettings
from agentic_backend.errors import AgentUnavailable, StoreUnavailable
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord
from agentic_backend.telemetry import know_secrets

log = logging.getLogger(__name__)

_MOST_TOLD = 50
# Beyond what the revision tells: a writer may have died before it changed the revision.
_ANYWAY_EVERY_S = 60.0


class DatabaseAgents:
    """`open_sessions` owns the task of `run`."""

    def __init__(
        self,
        store: Store,
        agents: AgentManager,
        entries: DatabaseEntries,
        settings: DatabaseAgentsSettings,
        close_agents: Callable[[Collection[str]], Awaitable[None]],
        tell: Callable[[], None],
    ) -> None:
        """`close_agents` closes warm agents with these ids, each after its exchange; `tell` tells other instances."""
        self._store = store
        self._agents = agents
        self._settings = settings
        self._close_agents = close_agents
        self._tell = tell
        self.entries = entries
        self.versions: Mapping[str, AgentVersionRecord] = {}
        """The last versions of the agents as they are served here, without deleted ones, by id."""
        self._kept: dict[str, ImportedEntry] = {}
        """What was read and imported, by the version's id, to be used again."""
        # The revision that `versions` is of, and when it was read, by the loop's clock.
        self._revision: int | None = None
        self._read_at = 0.0
        self._turn = asyncio.Lock()
        """One reads at a time."""
        self._wanted = asyncio.Event()
        """Set if another instance has told of a change."""

    @property
    def is_on(self) -> bool:
        return self._settings.enabled

    @property
    def wins(self) -> Source:
        return self._settings.wins

    def look(self) -> None:
        """Another instance has changed something."""
        self._wanted.set()

    async def changed(self) -> None:
        """Something has been changed here: serve it at once, and tell the other instances."""
        self._tell()
        await self.refresh_if_possible()

    async def run(self) -> None:
        """Follow the changes until cancelled."""
        while self.is_on and not is_cancelled():
            await self.refresh_if_possible()
            try:
                async with asyncio.timeout(self._settings.look_every_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()

    async def refresh_if_possible(self, *, anew: bool = False) -> None:
        """Like `refresh`; if it fails, what was served goes on, and `run` tries again. Never raises."""
        try:
            await self.refresh(anew=anew)
        except StoreUnavailable:
            # The store tells of its outages itself.
            pass
        except Exception as error:
            # Neither the server's start, nor its reloads, nor `run` may end because of it.
            log.error("agents of the database not read", exc_info=error)

    async def refresh(self, *, anew: bool = False) -> None:
        """Serve what the database has now; `anew`: import also what has not changed. Raises StoreUnavailable."""
        if not self.is_on:
            return
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if anew:
                # Also for the next time, if it fails this time.
                self._kept, self._revision = {}, None
            revision = await self._store.agents_revision()
            if revision == self._revision and now - self._read_at < _ANYWAY_EVERY_S:
                return
            versions = [each for each in await self._store.latest_agent_versions() if not each.is_deleted]
            try:
                change = await self._serve(versions)
            except AgentUnavailable:
                # Code of an agent does not end, as the log says already. What was served goes on.
                return
            self._revision, self._read_at = revision, now
        if changed := [*change.changed, *change.removed]:
            await self._close_agents(changed)

    async def _serve(self, versions: Sequence[AgentVersionRecord]) -> CatalogChange:
        kept, merged = await self._agents.imports.run(lambda: self._imported(versions))
        if merged.sources.yaml is not self._agents.sources.yaml:
            # The YAML catalog was reloaded meanwhile.
            merged = self._agents.with_database(list(kept.values()), self._settings.wins)
        # Before anything of it is built, and could be quoted.
        know_secrets(merged.secrets)
        change = self._agents.become(merged)
        self._kept = kept
        self.versions = {each.agent_id: each for each in versions}
        if told := {name: ids[:_MOST_TOLD] for name, ids in _ids_of(change).items() if ids}:
            log.info("agents of the database served", extra={"added": [], "changed": [], "removed": [], **told})
        return change

    def _imported(self, versions: Sequence[AgentVersionRecord]) -> tuple[dict[str, ImportedEntry], AgentManager]:
        """By the version's id; and the catalog with them. Blocks."""
        kept = {each.id: self._kept.get(each.id) or self._import(each) for each in versions}
        return kept, self._agents.with_database(list(kept.values()), self._settings.wins)

    def _import(self, version: AgentVersionRecord) -> ImportedEntry:
        read = self.entries.read(version.yaml, self._agents.chat_profiles.names, version.agent_id)
        if read.forbidden:
            log.warning(
                "agent of the database refused",
                extra={"agent_id": version.agent_id, "forbidden": list(read.forbidden[:_MOST_TOLD])},
            )
        return self.entries.imported(read, is_enabled=version.enabled)


def _ids_of(change: CatalogChange) -> dict[str, Sequence[str]]:
    return {"added": change.added, "changed": change.changed, "removed": change.removed}
