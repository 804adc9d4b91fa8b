"""AgentManager: the served agents, each with the class, graph or function that its class path names.

Loaded at the start, before the event loop runs, because it imports the authors' modules; a reload loads another one
and swaps what it holds, in one assignment. Invariant: a bad entry becomes a problem and makes its own agent
unavailable, and the leaders that have it in their crew; it affects no other agent.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeGuard

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.catalog import AgentsCatalog, AgentSettings, read_catalog
from agentic_backend.agents.class_path import ClassPathError, import_also_from, resolve
from agentic_backend.agents.factory_arguments import wanted_by
from agentic_backend.agents.graph_context import graph_context
from agentic_backend.agents.leader_flow import LeaderFlow
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.tool_approval import tools_of
from agentic_backend.agents.tuning_fields import ignored, wrong
from agentic_backend.auth.user import User
from agentic_backend.config.chat_profiles import BUILT_IN_PROFILES, ChatProfiles
from agentic_backend.config.located_yaml import ConfigError, ConfigProblem, KeyPath, LocatedYaml
from agentic_backend.config.validation_problems import near_miss
from agentic_backend.errors import AgentNotFound, AgentUnavailable, Forbidden
from agentic_backend.known_secrets import secrets_in
from agentic_backend.mcp import delegation_tool_name

_LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class CatalogAgent:
    """A served entry and the target of its class path: an AgentFlow class, a compiled graph, or a function."""

    settings: AgentSettings
    # Has passed `require_servable`.
    target: object
    # The agents that a leader leads.
    crew: Sequence["CatalogAgent"] = ()
    # The catalog that the entry is in, and its path there; None for an entry that was made by code.
    document: LocatedYaml | None = field(default=None, compare=False, repr=False)
    path: KeyPath = field(default=(), compare=False)

    @property
    def tool_names(self) -> list[str]:
        """The agent's own tools and the MCP tools that its entry names; other MCP tools are not known yet."""
        uses = self.settings.tuning.mcp_servers
        named = [name for use in uses for name in (use.require_tools if use.tools is None else use.tools)]
        return list(dict.fromkeys([*_own_tool_names(self.target), *self.settings.tools, *named]))

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
    ) -> None:
        """`agents` are the served ones, at least one; `unavailable` are the ids of entries that can't be served.

        `failed_imports` says why for some of these.
        """
        self._catalog = _Catalog(
            agents={agent.settings.id: agent for agent in agents},
            unavailable=frozenset(unavailable),
            disabled=frozenset(disabled),
            failed_imports=failed_imports or {},
            problems=sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)),
            chat_profiles=chat_profiles,
        )

    @classmethod
    def load(
        cls,
        path: Path,
        models: Collection[str],
        mcp_servers: Collection[str] = (),
        chat_profiles: ChatProfiles = BUILT_IN_PROFILES,
    ) -> "AgentManager":
        """Read the catalog at `path` and import its agents.

        `models` are the names that an entry's `model` may have, `mcp_servers` the ids that it may use, `chat_profiles`
        what its `chat.profile` may name.

        Blocks during the imports. Raises ConfigError if no agent can be served.
        """
        catalog = read_catalog(path, models, mcp_servers, chat_profiles.names)
        # Authors' modules are beside the catalog.
        import_also_from(path.parent)
        problems = list(catalog.problems)
        agents: dict[str, CatalogAgent] = {}
        failed_imports: dict[str, ClassPathError] = {}
        for entry in catalog.entries:
            if entry.settings is None or not entry.settings.enabled:
                continue
            try:
                target = _target_of(entry.settings)
                agents[entry.settings.id] = CatalogAgent(
                    entry.settings, target, document=catalog.document, path=entry.path
                )
            except ClassPathError as error:
                problems.append(catalog.document.problem((*entry.path, "class_path"), str(error)))
                failed_imports[entry.settings.id] = error
        problems += _drop_those_that_cannot_ask(agents, catalog)
        problems += _drop_those_with_wrong_fields(agents, catalog)
        problems += _drop_leaders_without_crew(agents, catalog)
        problems += _second_defaults(agents, catalog)
        if not agents:
            nothing = catalog.document.problem(("agents",), "no agent can be served; enable or repair one")
            raise ConfigError([*problems, nothing])
        agents = {
            agent_id: replace(agent, crew=[agents[member] for member in agent.settings.crew])
            for agent_id, agent in agents.items()
        }
        disabled = {entry.settings.id for entry in catalog.entries if entry.settings and not entry.settings.enabled}
        known = {entry.id for entry in catalog.entries if entry.id is not None}
        unavailable = known - disabled - agents.keys()
        return cls(
            agents.values(),
            unavailable=unavailable,
            problems=problems,
            failed_imports=failed_imports,
            disabled=disabled,
            chat_profiles=chat_profiles,
        )

    def become(self, other: "AgentManager") -> CatalogChange:
        """Serve what `other` serves from now on. What has begun keeps the agents that it began with."""
        before, after = self._catalog.agents, other._catalog.agents
        self._catalog = other._catalog
        return CatalogChange(
            added=[agent_id for agent_id in after if agent_id not in before],
            changed=[agent_id for agent_id in after if agent_id in before and after[agent_id] != before[agent_id]],
            removed=[agent_id for agent_id in before if agent_id not in after],
        )

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """The problems of the catalog, by line."""
        return self._catalog.problems

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

    def served(self) -> list[CatalogAgent]:
        """All served agents, in the order of the catalog."""
        return list(self._catalog.agents.values())

    def _default_for(self, user: User) -> CatalogAgent:
        agents = self.served_for(user)
        if not agents:
            raise Forbidden("You have no access to any agent.")
        return next((agent for agent in agents if agent.settings.default), agents[0])


def is_flow_class(target: object) -> TypeGuard[type[AgentFlow]]:
    """Whether the target of a class path is a class of agents, not a graph or a function that returns one."""
    return isinstance(target, type) and issubclass(target, AgentFlow)


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


def _target_of(settings: AgentSettings) -> object:
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


def _drop_those_that_cannot_ask(agents: dict[str, CatalogAgent], catalog: AgentsCatalog) -> list[ConfigProblem]:
    """Remove agents that can't ask for the approvals that their entries require; return the reasons."""
    problems = []
    for entry in catalog.entries:
        settings = entry.settings
        if settings is None or not settings.require_approval or settings.id not in agents:
            continue
        if is_flow_class(agents[settings.id].target):
            found = _unknown_tools(agents[settings.id])
        else:
            found = [((), "only an AgentFlow class can ask for approval; a graph asks by an interrupt() of its own")]
        if found:
            problems += [
                catalog.document.problem((*entry.path, "require_approval", *place), reason) for place, reason in found
            ]
            del agents[settings.id]
    return problems


def _drop_those_with_wrong_fields(agents: dict[str, CatalogAgent], catalog: AgentsCatalog) -> list[ConfigProblem]:
    """Remove agents that can't be made with their entries' fields; return the reasons, and the keys without effect."""
    problems: list[ConfigProblem] = []
    for entry in catalog.entries:
        agent = agents.get(entry.id or "")
        if entry.settings is None or agent is None or agent.settings is not entry.settings:
            continue
        found = wrong(entry.settings, agent.target, catalog.document, entry.path)
        problems += found or ignored(entry.settings, agent.target, catalog.document, entry.path)
        if found:
            del agents[entry.settings.id]
    return problems


def _unknown_tools(agent: CatalogAgent) -> list[tuple[KeyPath, str]]:
    """The required approvals of tools that the agent does not have: place in the entry, and reason.

    Empty if the agent's tools are not known yet.
    """
    settings, declared = agent.settings, getattr(agent.target, "tool_names", ())
    if not declared or settings.tuning.mcp_servers:
        return []
    known = [*declared, *settings.tools, *map(delegation_tool_name, settings.crew)]
    return [
        ((settings.require_approval.index(name),), f"the agent has no tool {name!r}{near_miss(name, known)}")
        for name in settings.approved_names
        if name not in known
    ]


def _drop_leaders_without_crew(agents: dict[str, CatalogAgent], catalog: AgentsCatalog) -> list[ConfigProblem]:
    """Remove leaders whose crew can't be built; return the reasons."""
    ids = [entry.id for entry in catalog.entries if entry.id is not None]
    leaders = {agent_id for agent_id, agent in agents.items() if agent.settings.type == "leader"}
    problems = []
    for entry in catalog.entries:
        settings = entry.settings
        if settings is None or settings.id not in leaders:
            continue
        for index, member in enumerate(settings.crew):
            if member in leaders:
                reason = f"{member!r} is a leader; a crew is made of agents"
            elif member not in ids:
                reason = f"there is no agent {member!r}{near_miss(member, ids)}"
            elif member not in agents:
                reason = f"the agent {member!r} is not served: it is disabled or has a problem"
            else:
                continue
            problems.append(catalog.document.problem((*entry.path, "crew", index), reason))
            agents.pop(settings.id, None)
    return problems


def _second_defaults(agents: dict[str, CatalogAgent], catalog: AgentsCatalog) -> list[ConfigProblem]:
    """A problem for each further agent that claims to be the default; these agents are still served."""
    wanting = [e for e in catalog.entries if e.settings and e.settings.id in agents and e.settings.default]
    return [
        catalog.document.problem((*entry.path, "default"), f"the default is the agent {wanting[0].id!r} already")
        for entry in wanting[1:]
    ]
