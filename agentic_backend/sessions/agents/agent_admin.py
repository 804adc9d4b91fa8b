"""AgentAdmin: what admins do with the agents of the database. Each change is a version with its author.

It checks no role: the transport does (see `transports.admin_gate`). What is written is checked as the YAML catalog is,
and nothing is written that has a problem.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.catalog.catalog import ApplicationKeys
from agentic_backend.agents.catalog.catalog_sources import ImportedEntry, Source
from agentic_backend.agents.catalog.database_entries import DatabaseEntry, document_of
from agentic_backend.agents.catalog.entry_texts import catalog_of, texts_in, with_enabled, yaml_of
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, dotted
from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.errors import AgentConflict, AgentInvalid, AgentNotFound, Forbidden, LimitReached, RateLimited
from agentic_backend.exchange.run.step_values import without_secrets
from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.sessions.agents.database_agents import DatabaseAgents
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord, VersionAction, version_id

log = logging.getLogger(__name__)

MOST_AGENTS = 200
VERSIONS_KEPT = 50
# With those that are deleted, and can be rolled back.
_MOST_KNOWN = 400
_LONGEST_IMPORT = 1_048_576
_MOST_IMPORTED_VALUES = 50_000
_MOST_PROBLEMS = 100
_FORBIDDEN_TOLD = 20
# Each may take as long as imports may.
_MOST_CHECKS = 8
_RETRY_AFTER_S = 5.0
_IMPORT = "import"


@dataclass(frozen=True, slots=True)
class AdministeredAgent:
    """An entry as admins see it; `version` is None of the YAML catalog's."""

    id: str
    source: Source
    name: str
    icon: str | None
    description: str
    is_enabled: bool
    is_served: bool
    hidden_by: Source | None
    version: AgentVersionRecord | None
    problems: Sequence[ConfigProblem]


@dataclass(frozen=True, slots=True)
class _Checked:
    """Entries that are to be written, their texts, and all their problems."""

    entries: Sequence[DatabaseEntry]
    texts: Sequence[str]
    problems: Sequence[ConfigProblem]


class AgentAdmin:
    def __init__(self, store: Store, agents: AgentManager, database: DatabaseAgents, reads: AdminReads) -> None:
        self._store = store
        self._agents = agents
        self._database = database
        self._reads = reads
        self._checking = 0
        """The checks that run or wait."""
        self._exporting = asyncio.Lock()
        """One export at a time."""

    @property
    def keys(self) -> ApplicationKeys:
        """Those that applications have in the `tuning` of entries."""
        return self._agents.keys

    @property
    def is_on(self) -> bool:
        """Whether the database may have agents."""
        return self._database.is_on

    @property
    def wins(self) -> Source:
        return self._database.wins

    async def agents(self) -> list[AdministeredAgent]:
        """All entries of both sources."""
        await self._database.refresh()
        return await asyncio.to_thread(self._listed)

    async def agent(self, agent_id: str) -> tuple[AdministeredAgent, str]:
        """The entry with this id that counts, and its text. Raises AgentNotFound."""
        found = [each for each in await self.agents() if each.id == agent_id]
        if not found:
            raise AgentNotFound
        # An admin edits what is in the database, also where the file's agent is served.
        agent = next((each for each in found if each.source == "database"), found[0])
        return agent, agent.version.yaml if agent.version is not None else self._text_in_file(agent_id)

    async def create(self, author: str, text: str) -> str:
        """The id of the new agent. Raises AgentInvalid, AgentConflict if its id is taken, LimitReached."""
        self._require_on()
        checked = await self._accepted(author, text)
        agent_id = str(checked.entries[0].entry.id)
        last = await self._store.agent_version(agent_id)
        if last is not None and not last.is_deleted:
            raise AgentConflict(f"There is an agent '{agent_id}' in the database already.")
        await self._make_room([agent_id])
        await self._write([self._version(last, agent_id, "created", author, text, self._is_enabled(checked))])
        return agent_id

    async def change(self, author: str, agent_id: str, text: str, based_on: int) -> None:
        """Raises AgentNotFound, AgentInvalid, and AgentConflict if `based_on` is no longer the last version."""
        last = await self._last(agent_id)
        if last.version != based_on:
            raise AgentConflict
        checked = await self._accepted(author, text, agent_id)
        values = checked.entries[0].entry.document.values
        is_enabled = self._is_enabled(checked) if "enabled" in values else last.enabled
        await self._write([self._version(last, agent_id, "changed", author, text, is_enabled)])

    async def delete(self, author: str, agent_id: str) -> None:
        """Its versions stay, so that it can be rolled back. Raises AgentNotFound, AgentConflict."""
        last = await self._last(agent_id)
        await self._write([self._version(last, agent_id, "deleted", author, last.yaml, last.enabled)])

    async def switch(self, author: str, agent_id: str, is_enabled: bool) -> None:
        """Raises AgentNotFound, AgentConflict, and AgentInvalid if what is to be enabled has a problem."""
        last = await self._last(agent_id)
        if last.enabled == is_enabled:
            return
        if is_enabled:
            await self._accepted(author, last.yaml, agent_id)
        text = await asyncio.to_thread(with_enabled, last.yaml, is_enabled)
        action: VersionAction = "enabled" if is_enabled else "disabled"
        await self._write([self._version(last, agent_id, action, author, text, is_enabled)])

    async def roll_back(self, author: str, agent_id: str, version: int) -> None:
        """Make a new version that is as `version` was. Raises AgentNotFound, AgentInvalid, AgentConflict."""
        last, wanted = await self._last(agent_id, deleted=True), await self.version(agent_id, version)
        await self._accepted(author, wanted.yaml, agent_id)
        if last.is_deleted:
            await self._make_room([agent_id])
        await self._write([self._version(last, agent_id, "rolled_back", author, wanted.yaml, wanted.enabled)])

    async def version(self, agent_id: str, version: int) -> AgentVersionRecord:
        """Raises AgentNotFound."""
        found = await self._store.agent_version(agent_id, version)
        if found is None:
            raise AgentNotFound("There is no such version of the agent.")
        return found

    async def versions(self, agent_id: str, below: int | None, limit: int) -> tuple[list[AgentVersionRecord], bool]:
        """The versions below `below`, the newest first, and whether there are more. Raises AgentNotFound."""
        found = await self._store.agent_versions(agent_id, below, limit + 1)
        if not found and below is None:
            raise AgentNotFound
        return found[:limit], len(found) > limit

    async def check(self, text: str) -> Sequence[ConfigProblem]:
        """What saving a text would refuse."""
        self._require_on()
        return (await self._check(lambda: self._checked(text))).problems

    async def exported(self) -> str:
        """The agents of the database as a catalog file."""
        await self._database.refresh()
        versions = self._database.versions
        # Not what can't be read, which only another program can have written.
        ids = [each.entry.id for each in self._agents.sources.database if each.entry.document.values]
        kept = [versions[agent_id] for agent_id in ids if agent_id is not None and agent_id in versions]
        # It takes seconds of processor time for many long entries.
        async with self._exporting:
            return await asyncio.to_thread(catalog_of, [(each.yaml, each.enabled) for each in kept])

    async def import_(self, author: str, text: str) -> None:
        """Create or change all agents of a catalog file, or none. Raises AgentInvalid, AgentConflict, LimitReached."""
        self._require_on()
        checked = await self._check(lambda: self._checked_catalog(text))
        await self._refuse(author, checked)
        ids = [str(each.entry.id) for each in checked.entries]
        lasts = [await self._store.agent_version(agent_id) for agent_id in ids]
        await self._make_room(ids)
        await self._write(
            [
                self._version(last, agent_id, "imported", author, text, entry.entry.settings.enabled)
                for last, agent_id, text, entry in zip(lasts, ids, checked.texts, checked.entries, strict=True)
                if entry.entry.settings is not None
            ]
        )

    def _require_on(self) -> None:
        if not self._database.is_on:
            raise Forbidden("The setting agents.database.enabled is off: agents are only in the YAML catalog.")

    async def _last(self, agent_id: str, *, deleted: bool = False) -> AgentVersionRecord:
        self._require_on()
        last = await self._store.agent_version(agent_id)
        if last is None or (last.is_deleted and not deleted):
            raise AgentNotFound("There is no such agent in the database.")
        return last

    def _version(
        self,
        last: AgentVersionRecord | None,
        agent_id: str,
        action: VersionAction,
        author: str,
        text: str,
        is_enabled: bool,
    ) -> AgentVersionRecord:
        number = 1 if last is None else last.version + 1
        return AgentVersionRecord(
            id=version_id(agent_id, number),
            agent_id=agent_id,
            version=number,
            action=action,
            author=author,
            at=self._store.now(),
            enabled=is_enabled,
            yaml=text,
        )

    @staticmethod
    def _is_enabled(checked: _Checked) -> bool:
        settings = checked.entries[0].entry.settings
        return settings is None or settings.enabled

    async def _write(self, versions: Sequence[AgentVersionRecord]) -> None:
        if not await self._store.add_agent_versions(versions, VERSIONS_KEPT):
            raise AgentConflict
        for each in versions:
            log.info(
                "agent of the database changed",
                extra={
                    "agent_id": each.agent_id,
                    "action": each.action,
                    "version": each.version,
                    "user_id": each.author,
                },
            )
        await self._database.changed()

    async def _make_room(self, new: Sequence[str]) -> None:
        """Raises LimitReached; forgets agents that were deleted longest ago."""
        latest = await self._store.latest_agent_versions()
        there = {each.agent_id for each in latest if not each.is_deleted}
        if len(there | set(new)) > MOST_AGENTS:
            raise LimitReached(f"The database may have no more than {MOST_AGENTS} agents.")
        deleted = [each for each in latest if each.is_deleted and each.agent_id not in new]
        surplus = len({each.agent_id for each in latest} | set(new)) - _MOST_KNOWN
        for each in sorted(deleted, key=lambda one: one.at)[: max(0, surplus)]:
            # It may be rolled back at this moment: that version stays.
            await self._store.forget_agent(each.agent_id, each.version)

    async def _accepted(self, author: str, text: str, agent_id: str | None = None) -> _Checked:
        checked = await self._check(lambda: self._checked(text, agent_id))
        await self._refuse(author, checked)
        return checked

    async def _check(self, check: Callable[[], _Checked]) -> _Checked:
        """Raises RateLimited if too many wait, AgentUnavailable if code that an entry names does not end."""
        if self._checking >= _MOST_CHECKS:
            raise RateLimited("Too many agents are being checked; try again in a moment.", retry_after_s=_RETRY_AFTER_S)
        self._checking += 1
        try:
            return await self._agents.imports.run(check)
        finally:
            self._checking -= 1

    async def _refuse(self, author: str, checked: _Checked) -> None:
        """Raise AgentInvalid if there are problems; record who has named what is forbidden."""
        for each in checked.entries:
            if each.forbidden:
                told = list(each.forbidden[:_FORBIDDEN_TOLD])
                log.warning(
                    "forbidden agent refused", extra={"agent_id": each.entry.id, "user_id": author, "forbidden": told}
                )
                await self._reads.note(author, f"refused: {', '.join(told)}", each.entry.id)
        if checked.problems:
            problems = [(each.message, each.line, each.column) for each in checked.problems[:_MOST_PROBLEMS]]
            raise AgentInvalid(problems=problems)

    def _checked(self, text: str, agent_id: str | None = None) -> _Checked:
        """Blocks."""
        entries = self._database.entries
        read = entries.read(text, self._agents.chat_profiles.names, agent_id)
        return _Checked([read], [text], self._problems([read], read.entry.document.file))

    def _checked_catalog(self, text: str) -> _Checked:
        """The same for a catalog file. Blocks."""
        try:
            document = document_of(_IMPORT, text, _LONGEST_IMPORT, _MOST_IMPORTED_VALUES)
        except ConfigError as error:
            return _Checked([], [], error.problems)
        values = document.values.get("agents")
        if not isinstance(values, list) or not values:
            missing = document.problem(("agents",), "expected a list of agents under the key 'agents'")
            return _Checked([], [], [missing])
        if len(values) > MOST_AGENTS:
            return _Checked([], [], [document.problem(("agents",), f"more than {MOST_AGENTS} agents")])
        read: list[DatabaseEntry] = []
        for index, value in enumerate(values):
            earlier = [each.entry for each in read]
            profiles = self._agents.chat_profiles.names
            read.append(self._database.entries.entry_in(document, ("agents", index), value, profiles, earlier))
            if sum(len(each.problems) for each in read) >= _MOST_PROBLEMS:
                break
        beside = [problem for place, problem in document.flaws if len(place) < 2 or place[0] != "agents"]
        problems = [*beside, *self._problems(read, _IMPORT)]
        if problems:
            return _Checked(read, [], problems)
        texts = texts_in(text)
        return _Checked(read, texts, self._too_large(read, texts))

    def _too_large(self, read: Sequence[DatabaseEntry], texts: Sequence[str]) -> list[ConfigProblem]:
        """What is wrong with the texts alone, as they are to be stored."""
        profiles = self._agents.chat_profiles.names
        return [
            each.entry.problem((), problem.message)
            for each, text in zip(read, texts, strict=True)
            for problem in self._database.entries.read(text, profiles, each.entry.id).problems
        ]

    def _problems(self, read: Sequence[DatabaseEntry], file: str) -> list[ConfigProblem]:
        """The problems that these entries have, also beside all others. Imports what may be imported."""
        new = [self._database.entries.imported(each) for each in read]
        ids = {each.entry.id for each in read}
        others = [each for each in self._agents.sources.database if each.entry.id not in ids]
        # They win, so that they are looked at also where the file has the same id.
        merged = self._agents.with_database([*others, *new], "database")
        return list(dict.fromkeys(each for each in merged.problems if each.file == file))

    def _listed(self) -> list[AdministeredAgent]:
        sources, problems = self._agents.sources, self._agents.problems
        served = {agent.settings.id: agent for agent in self._agents.served()}
        shown = sources.shown()
        listed = []
        for source, entries in (("yaml", sources.yaml), ("database", sources.database)):
            for each in entries:
                if each.entry.id is not None:
                    is_shown = any(each is one for one in shown)
                    agent = self._described(each, "yaml" if source == "yaml" else "database", problems)
                    hidden_by = None if is_shown else sources.wins
                    listed.append(replace(agent, hidden_by=hidden_by, is_served=is_shown and agent.id in served))
        return listed

    def _described(
        self, imported: ImportedEntry, source: Source, problems: Sequence[ConfigProblem]
    ) -> AdministeredAgent:
        entry = imported.entry
        assert entry.id is not None
        place = dotted(entry.path)
        own = [
            each
            for each in problems
            if each.file == entry.document.file
            and (each.where == place or each.where.startswith((f"{place}.", f"{place}[")) or not place)
        ]
        return AdministeredAgent(
            id=entry.id,
            source=source,
            name=entry.settings.name if entry.settings is not None else entry.id,
            icon=entry.settings.icon if entry.settings is not None else None,
            description=entry.settings.description if entry.settings is not None else "",
            is_enabled=imported.is_enabled,
            is_served=False,
            hidden_by=None,
            version=self._database.versions.get(entry.id) if source == "database" else None,
            problems=own,
        )

    def _text_in_file(self, agent_id: str) -> str:
        """What the YAML file says of the agent, without its secrets."""
        entry = next(each.entry for each in self._agents.sources.yaml if each.entry.id == agent_id)
        values = entry.document.values
        for part in entry.path:
            values = values[part]
        # Before it is YAML, which quotes and folds texts.
        return yaml_of(without_secrets(values, tuple(secrets_in({"agents": [values]}))))
