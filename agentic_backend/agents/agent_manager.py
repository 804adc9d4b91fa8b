"""AgentManager: the served agents, each with the class, graph or function that its class path names.

Loaded at the start, before the event loop runs, because it imports the authors' modules; a reload loads another one
and swaps what it holds, in one assignment. Invariant: a bad entry becomes a problem and makes its own agent
unavailable, and the leaders that have it in their crew; it affects no other agent.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from agentic_backend.agents.agent_flow import AgentFlow, is_flow_class
from agentic_backend.agents.catalog.catalog import (
    NO_KEYS,
    AgentSettings,
    ApplicationKeys,
    CatalogEntry,
    KnownNames,
    read_catalog,
)
from agentic_backend.agents.catalog.catalog_checks import (
    drop_leaders_without_crew,
    drop_those_that_cannot_ask,
    drop_those_with_wrong_fields,
    second_defaults,
)
from agentic_backend.agents.catalog.catalog_sources import CatalogSources, ImportedEntry, Source
from agentic_backend.agents.catalog.named_parts import NOTHING, NamedParts, read_parts
from agentic_backend.agents.catalog.shipped_entries import with_shipped
from agentic_backend.agents.code.class_path import ClassPathError, authors_code, import_also_from, resolve
from agentic_backend.agents.code.factory_arguments import wanted_by
from agentic_backend.agents.code.graph_context import graph_context
from agentic_backend.agents.code.import_thread import ImportThread
from agentic_backend.agents.leader_flow import LeaderFlow
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.tools.tool_approval import tools_of
from agentic_backend.auth.user import User
from agentic_backend.config.topics.apis import NO_APIS, ApiSettings
from agentic_backend.config.topics.chat_profiles import BUILT_IN_PROFILES, ChatProfiles
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, KeyPath, LocatedYaml
from agentic_backend.config.yaml.validation_problems import near_miss
from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.errors import AgentNotFound, AgentUnavailable, Forbidden

_LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class CatalogAgent:
    """A served entry and the target of its class path: an AgentFlow class, a compiled graph, or a function."""

    settings: AgentSettings
    target: object
    """Has passed `require_servable`."""
    crew: Sequence["CatalogAgent"] = ()
    """The agents that a leader leads."""
    parts: NamedParts = NOTHING
    """What its entry names beside the class path, as it was when the catalog was read."""
    # The catalog that the entry is in, and its path there; None for an entry that was made by code.
    document: LocatedYaml | None = field(default=None, compare=False, repr=False)
    path: KeyPath = field(default=(), compare=False)

    @property
    def tool_names(self) -> list[str]:
        """The agent's own tools and the MCP tools that its entry names; other MCP tools are not known yet."""
        uses = self.settings.tuning.mcp_servers
        named = [name for use in uses for name in (use.require_tools if use.tools is None else use.tools)]
        return list(dict.fromkeys([*_own_tool_names(self.target), *self.parts.tool_names, *named]))

    @property
    def models(self) -> frozenset[str]:
        """The names of the models that the entry names."""
        return self.parts.models | ({self.settings.model} if self.settings.model is not None else set())

    def place_of(self, name: str) -> tuple[str | None, int | None]:
        """The name of the catalog's file, and the line of the entry's value with this dotted name, or of the entry."""
        if self.document is None:
            return None, None
        places = self.document.places
        place = places.get((*self.path, *name.split("."))) or places[self.path]
        return Path(self.document.file).name, place.value.line

    def check_context(self, context: RuntimeContext) -> None:
        """Check that the graph's context can be made; that of a class or a function is known only once it is built.

        Raises BadFrame and AgentUnavailable, which name the field.
        """
        if isinstance(self.target, Pregel):
            graph_context(self.target.context_schema, self.settings.tuning.fields, context)


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """The ids of the agents that are served now and were not, that are served otherwise, and that were served."""

    added: Sequence[str]
    changed: Sequence[str]
    removed: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Catalog:
    agents: Mapping[str, CatalogAgent]
    """The served agents by id, in the order of the catalog."""
    unavailable: frozenset[str]
    """The ids of entries that can't be served because of a problem."""
    disabled: frozenset[str]
    failed_imports: Mapping[str, ClassPathError]
    problems: Sequence[ConfigProblem]
    """By line."""
    chat_profiles: ChatProfiles
    """Those that the entries may name."""
    sources: CatalogSources


class AgentManager:
    def __init__(
        self,
        agents: Iterable[CatalogAgent],
        *,
        unavailable: Iterable[str],
        problems: Iterable[ConfigProblem],
        failed_imports: Mapping[str, ClassPathError] | None = None,
        disabled: Iterable[str] = (),
        chat_profiles: ChatProfiles = BUILT_IN_PROFILES,
        sources: CatalogSources | None = None,
    ) -> None:
        """`agents` are the served ones; `unavailable` are the ids of entries that can't be served.

        `failed_imports` says why for some of these.
        """
        self._catalog = _Catalog(
            agents={agent.settings.id: agent for agent in agents},
            unavailable=frozenset(unavailable),
            disabled=frozenset(disabled),
            failed_imports=failed_imports or {},
            problems=sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)),
            chat_profiles=chat_profiles,
            sources=sources or CatalogSources(),
        )
        self._reload_problems: Sequence[str] = ()
        """See `reload_problems`."""
        self.keys = NO_KEYS
        """Those of applications, with which the catalog was read."""
        self.imports = ImportThread()
        """Imports modules of agents while they are served: of a reload, and of the database."""

    @classmethod
    def load(
        cls,
        path: Path,
        models: Collection[str],
        mcp_servers: Collection[str] = (),
        chat_profiles: ChatProfiles = BUILT_IN_PROFILES,
        apis: Mapping[str, ApiSettings] = NO_APIS,
        *,
        may_be_empty: bool = False,
        shipped: Sequence[Path] = (),
        keys: ApplicationKeys = NO_KEYS,
    ) -> "AgentManager":
        """Read the catalog at `path` and those that applications have `shipped`, and import their agents.

        An entry of `path` takes the place of a shipped one with its id, also where it is disabled.

        `models` are the names that an entry's `model` may have, `mcp_servers` the ids that it may use, `chat_profiles`
        what its `chat.profile` may name, `apis` the APIs that it may use, by id, `keys` those of applications.

        Blocks during the imports. Raises ConfigError if no agent can be served, unless the catalog `may_be_empty` as
        the database may have agents.
        """
        known = KnownNames(models, mcp_servers, chat_profiles.names, apis=apis, applications=keys)
        catalog = read_catalog(path, known)
        # Authors' modules are beside the catalog.
        import_also_from(path.parent)
        read, problems = with_shipped(catalog, shipped, known)
        entries = [imported(entry, known) for entry in read]
        manager = cls._of(CatalogSources(entries, problems), chat_profiles)
        manager.keys = keys
        if not manager.served() and not may_be_empty:
            nothing = catalog.document.problem(("agents",), "no agent can be served; enable or repair one")
            raise ConfigError([*manager.problems, nothing])
        return manager

    def with_database(self, database: Sequence[ImportedEntry], wins: Source) -> "AgentManager":
        """The same catalog with these entries of the database beside it; `wins` is the source whose ids count."""
        return self._of(replace(self.sources, database=database, wins=wins), self.chat_profiles)

    @classmethod
    def _of(cls, sources: CatalogSources, chat_profiles: ChatProfiles) -> "AgentManager":
        shown = sources.shown()
        problems = [*sources.problems, *(problem for each in sources.all for problem in each.problems)]
        agents = {
            each.entry.settings.id: CatalogAgent(
                each.entry.settings,
                each.target,
                parts=each.parts,
                document=each.entry.document,
                path=each.entry.path,
            )
            for each in shown
            if each.entry.settings is not None and each.target is not None
        }
        entries = [each.entry for each in shown]
        problems += drop_those_that_cannot_ask(agents, entries)
        problems += drop_those_with_wrong_fields(agents, entries)
        of_database = {
            each.entry.id for each in shown if each.entry.id and any(each is one for one in sources.database)
        }
        problems += drop_leaders_without_crew(agents, entries, of_database)
        problems += second_defaults(agents, entries)
        agents = {
            agent_id: replace(agent, crew=[agents[member] for member in agent.settings.crew])
            for agent_id, agent in agents.items()
        }
        disabled = {each.entry.settings.id for each in shown if each.entry.settings and not each.is_enabled}
        known = {entry.id for entry in entries if entry.id is not None}
        return cls(
            agents.values(),
            unavailable=known - disabled - agents.keys(),
            problems=problems,
            failed_imports={each.entry.id: each.failure for each in shown if each.entry.id and each.failure},
            disabled=disabled,
            chat_profiles=chat_profiles,
            sources=sources,
        )

    def become(self, other: "AgentManager") -> CatalogChange:
        """Serve what `other` serves from now on. What has begun keeps the agents that it began with."""
        before, after = self._catalog.agents, other._catalog.agents
        self._catalog = other._catalog
        return CatalogChange(
            added=[agent_id for agent_id in after if agent_id not in before],
            changed=[each for each in after if each in before and not _is_same(before[each], after[each])],
            removed=[agent_id for agent_id in before if agent_id not in after],
        )

    def reload_ended(self, problems: Sequence[str] = ()) -> None:
        """`problems` say what kept the reload from being served, a line each with its place."""
        self._reload_problems = problems

    def reload_problems(self, user: User) -> Sequence[str]:
        """What kept the latest reload from being served, for a user who may see it; else nothing."""
        return self._reload_problems if user.sees_details else ()

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """The problems of the catalog, by line."""
        return self._catalog.problems

    @property
    def sources(self) -> CatalogSources:
        """All entries, also those that are not served."""
        return self._catalog.sources

    @property
    def secrets(self) -> list[str]:
        """The secrets in the served entries: in what their code is given, above all."""
        return secrets_in({"agents": [agent.settings.model_dump() for agent in self.served()]})

    @property
    def chat_profiles(self) -> ChatProfiles:
        """The chat profiles that came with the catalog."""
        return self._catalog.chat_profiles

    @property
    def known_ids(self) -> frozenset[str]:
        """The ids of all entries of the catalog, also of those that are not served."""
        return frozenset({*self._catalog.agents, *self._catalog.unavailable, *self._catalog.disabled})

    def get(self, agent_id: str | None, user: User) -> CatalogAgent:
        """The agent with this id, or the user's default agent if it is None.

        Raises AgentNotFound if no such agent is in the catalog or it is disabled, AgentUnavailable if its entry is bad,
        Forbidden if the user may not use it.
        """
        if agent_id is None:
            return self._default_for(user)
        agent = self._entry(agent_id, user)
        if not agent.settings.access.allows(user.roles):
            raise Forbidden(f"You have no access to the agent '{agent_id}'.")
        return agent

    def entry(self, agent_id: str) -> CatalogAgent:
        """The agent with this id, without an access check. Raises AgentNotFound or AgentUnavailable."""
        return self._entry(agent_id, None)

    def name_of(self, agent_id: str) -> str:
        """The name of the agent with this id, which need not be in the catalog any more: then its id."""
        agent = self._catalog.agents.get(agent_id)
        return agent_id if agent is None else agent.settings.name

    def icon_of(self, agent_id: str) -> str | None:
        """The mark of the agent with this id, if it has one; see `name_of`."""
        agent = self._catalog.agents.get(agent_id)
        return None if agent is None else agent.settings.icon

    def _entry(self, agent_id: str, user: User | None) -> CatalogAgent:
        if agent_id in self._catalog.unavailable:
            raise AgentUnavailable(f"The agent '{agent_id}' is not available.") from self._catalog.failed_imports.get(
                agent_id
            )
        if agent_id not in self._catalog.agents:
            shown = agent_id[:_LONGEST_ID]
            # A hint names only what the user may know of.
            usable = [agent.settings.id for agent in self.served_for(user)] if user is not None else []
            raise AgentNotFound(f"There is no agent '{shown}'{near_miss(shown, usable) or '.'}")
        return self._catalog.agents[agent_id]

    def served_for(self, user: User) -> list[CatalogAgent]:
        """The agents that the user may use, in the order of the catalog."""
        return [agent for agent in self._catalog.agents.values() if agent.settings.access.allows(user.roles)]

    def said_to_applications(self, agent_id: str) -> Mapping[str, Any]:
        """What the agent's entry says to applications, by their ids; empty if the agent is not served."""
        agent = self._catalog.agents.get(agent_id)
        return {} if agent is None else agent.settings.tuning.of_applications

    def served(self) -> list[CatalogAgent]:
        """All served agents, in the order of the catalog."""
        return list(self._catalog.agents.values())

    def _default_for(self, user: User) -> CatalogAgent:
        agents = self.served_for(user)
        if not agents:
            raise Forbidden("You have no access to any agent.")
        return next((agent for agent in agents if agent.settings.default), agents[0])


def _is_same(before: CatalogAgent, after: CatalogAgent) -> bool:
    try:
        return before == after
    # What they hold is authors', and so is how it is compared.
    except Exception:
        return False


def require_servable(target: object) -> None:
    """Raise ClassPathError if the target of a class path can't be served."""
    if isinstance(target, Pregel):
        return
    if isinstance(target, StateGraph):
        raise ClassPathError("is a graph that is not compiled; give what its compile() returns")
    if isinstance(target, type):
        if not issubclass(target, AgentFlow):
            raise ClassPathError(f"the class {target.__name__!r} is no subclass of AgentFlow")
        if target.get_compiled_graph is AgentFlow.get_compiled_graph:
            raise ClassPathError(f"the class {target.__name__!r} does not implement get_compiled_graph()")
        return
    if not callable(target):
        raise ClassPathError(
            f"expected an AgentFlow class, a compiled graph or a function that returns one, "
            f"found a value of type {type(target).__name__}"
        )
    wanted_by(target)


def _takes_tools(target: object) -> bool:
    """Whether the target of a class path can be given the standard tools of its entry."""
    if is_flow_class(target):
        return True
    return callable(target) and not isinstance(target, Pregel) and any(one.kind == "tools" for one in wanted_by(target))


def _own_tool_names(target: object) -> list[str]:
    """The tools that a class declares or that a compiled graph's tool nodes hold; empty for a function."""
    if is_flow_class(target):
        return list(target.tool_names)
    return tools_of(target) if isinstance(target, Pregel) else []


def imported(
    entry: CatalogEntry, known: KnownNames, *, target_of: Callable[[AgentSettings], object] | None = None
) -> ImportedEntry:
    """The entry with what it names; nothing is imported for one that is bad or disabled. Blocks."""
    settings = entry.settings
    if settings is None or not settings.enabled:
        return ImportedEntry(entry, is_enabled=settings is None)
    try:
        with authors_code("checking it"):
            target = (target_of or resolved_target)(settings)
            parts, mistakes = read_parts(settings, target, known)
    except ClassPathError as error:
        return ImportedEntry(entry, failure=error, problems=[entry.problem(("class_path",), str(error))])
    if mistakes:
        failure = ClassPathError("; ".join(reason for _, reason in mistakes))
        problems = [entry.problem(place, reason) for place, reason in mistakes]
        return ImportedEntry(entry, failure=failure, problems=problems)
    return ImportedEntry(entry, target=target, parts=parts)


def resolved_target(settings: AgentSettings) -> object:
    """What the entry's `class_path` names. Raises ClassPathError if it can't be imported, or used as the entry says."""
    target = resolve(settings.class_path)
    _require_leader_class(settings, target)
    require_servable(target)
    if settings.tuning.mcp_servers and not is_flow_class(target):
        raise ClassPathError("only an AgentFlow class can use MCP servers")
    if settings.tools and not _takes_tools(target):
        raise ClassPathError(
            "only an AgentFlow class, or a function with a parameter 'tools', can be given standard tools"
        )
    return target


def _require_leader_class(settings: AgentSettings, target: object) -> None:
    """Raise ClassPathError if the type of an entry does not fit its class."""
    is_leader = isinstance(target, type) and issubclass(target, LeaderFlow)
    if is_leader and settings.type != "leader":
        raise ClassPathError("is a LeaderFlow class, which leads a crew; the agent needs 'type: leader'")
    if not is_leader and settings.type == "leader":
        raise ClassPathError("an agent of type 'leader' needs a class derived from LeaderFlow")
