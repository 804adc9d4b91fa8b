"""Checks of catalog entries against each other, and against what their class paths name."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agentic_backend.agents.agent_flow import is_flow_class
from agentic_backend.agents.catalog.catalog import CatalogEntry
from agentic_backend.agents.catalog.tuning_fields import ignored, wrong
from agentic_backend.agents.code.class_path import ClassPathError, authors_code
from agentic_backend.config.yaml.located_yaml import ConfigProblem, KeyPath
from agentic_backend.config.yaml.validation_problems import near_miss
from agentic_backend.mcp import delegation_tool_name

if TYPE_CHECKING:
    from agentic_backend.agents.agent_manager import CatalogAgent

Agents = dict[str, "CatalogAgent"]
"""The agents that can still be served, by id."""
Entries = Sequence[CatalogEntry]


def drop_those_that_cannot_ask(agents: Agents, entries: Entries) -> list[ConfigProblem]:
    """Remove agents that can't ask for the approvals that their entries require; return the reasons."""
    problems = []
    for entry in entries:
        settings = entry.settings
        if settings is None or not settings.require_approval or settings.id not in agents:
            continue
        try:
            with authors_code("checking it"):
                found = _missing_approvals(agents[settings.id])
        except ClassPathError as error:
            found = [(("class_path",), str(error))]
        if found:
            problems += [entry.problem(place, reason) for place, reason in found]
            del agents[settings.id]
    return problems


def drop_those_with_wrong_fields(agents: Agents, entries: Entries) -> list[ConfigProblem]:
    """Remove agents that can't be made with their entries' fields; return the reasons, and the keys without effect."""
    problems: list[ConfigProblem] = []
    for entry in entries:
        agent = agents.get(entry.id or "")
        if entry.settings is None or agent is None or agent.settings is not entry.settings:
            continue
        is_served = False
        try:
            with authors_code("checking it"):
                found = wrong(entry.settings, agent.target, entry.document, entry.path)
                is_served = not found
                problems += found or ignored(entry.settings, agent.target, entry.document, entry.path)
        except ClassPathError as error:
            is_served = False
            problems.append(entry.problem(("class_path",), str(error)))
        if not is_served:
            del agents[entry.settings.id]
    return problems


def _missing_approvals(agent: "CatalogAgent") -> list[tuple[KeyPath, str]]:
    """The approvals that the entry requires and its agent can't ask for: place in the entry, and reason."""
    if is_flow_class(agent.target):
        return [(("require_approval", *place), reason) for place, reason in _unknown_tools(agent)]
    reason = "only an AgentFlow class can ask for approval; a graph asks by an interrupt() of its own"
    return [(("require_approval",), reason)]


def _unknown_tools(agent: "CatalogAgent") -> list[tuple[KeyPath, str]]:
    """The required approvals of tools that the agent does not have: place in the entry, and reason.

    Empty if the agent's tools are not known yet.
    """
    settings, parts, declared = agent.settings, agent.parts, getattr(agent.target, "tool_names", ())
    are_declared = declared or getattr(agent.target, "is_configured", False)
    if not are_declared or settings.tuning.mcp_servers or not parts.has_all_tool_names:
        return []
    known = [*declared, *parts.tool_names, *parts.policy_names, *map(delegation_tool_name, settings.crew)]
    return [
        ((settings.require_approval.index(name),), f"the agent has no tool {name!r}{near_miss(name, known)}")
        for name in settings.approved_names
        if name not in known
    ]


def drop_leaders_without_crew(agents: Agents, entries: Entries, of_database: Collection[str]) -> list[ConfigProblem]:
    """Remove leaders whose crew can't be built; return the reasons.

    The leaders `of_database`, by id, also if their crew is not for all whom they are for: an admin could else open to
    anybody what the operator keeps to some.
    """
    ids = [entry.id for entry in entries if entry.id is not None]
    leaders = {agent_id for agent_id, agent in agents.items() if agent.settings.type == "leader"}
    problems = []
    for entry in entries:
        settings = entry.settings
        if settings is None or settings.id not in leaders:
            continue
        if not settings.crew:
            problems.append(entry.problem(("type",), "a leader leads a crew: name agents of this catalog in 'crew'"))
            del agents[settings.id]
        for index, member in enumerate(settings.crew):
            if member in leaders:
                reason = f"{member!r} is a leader; a crew is made of agents"
            elif member not in ids:
                reason = f"there is no agent {member!r}{near_miss(member, ids)}"
            elif member not in agents:
                reason = f"the agent {member!r} is not served: it is disabled or has a problem"
            elif settings.id in of_database and not agents[member].settings.access.covers(settings.access):
                reason = (
                    f"the agent {member!r} is for fewer people than this leader: those with one of its roles "
                    f"({', '.join(agents[member].settings.access.roles)}); a leader of the database needs "
                    "'access.roles' that are all among them"
                )
            else:
                continue
            problems.append(entry.problem(("crew", index), reason))
            agents.pop(settings.id, None)
    return problems


def second_defaults(agents: Agents, entries: Entries) -> list[ConfigProblem]:
    """A problem for each further agent that claims to be the default; these agents are still served."""
    wanting = [e for e in entries if e.settings and e.settings.id in agents and e.settings.default]
    return [entry.problem(("default",), f"the default is the agent {wanting[0].id!r} already") for entry in wanting[1:]]
