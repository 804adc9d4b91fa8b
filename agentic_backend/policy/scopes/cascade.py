"""Cascade: which settings apply to an agent in a scope: organisation, agent, class, task, assignment.

The most specific level that sets a value wins. Pure; what it finds is cached by the agent and the scopes that the
policies file knows, so that an ask in a known scope costs a look-up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.catalog.catalog import AgentLimits, AgentSettings
from agentic_backend.policy.scopes.effective import Effective, LevelValue
from agentic_backend.policy.scopes.policies_file import Policies, ScopeLimits
from agentic_backend.policy.scopes.scope_prompts import prompt_texts
from agentic_backend.protocol.scopes import ScopeKind

_CACHED = 4_096
_BEFORE_AGENT: Sequence[ScopeKind] = ("organisation",)
_AFTER_AGENT: Sequence[ScopeKind] = ("class", "task", "assignment")
_NAMES = (
    "model",
    "chat_profile",
    "available_at",
    "closes_at",
    *(f"limits.{name}" for name in ScopeLimits.model_fields),
)

_Levels = dict[str, list[LevelValue]]


@dataclass(frozen=True, slots=True)
class Applied:
    """What an exchange runs with: `agent` is the catalog's, with the model and the limits that apply."""

    agent: CatalogAgent
    effective: Effective


class Cascade:
    def __init__(self, policies: Policies, defaults: Callable[[], Mapping[str, Any]]) -> None:
        """`defaults` gives the values of the server's settings, by dotted name."""
        self._policies = policies
        self._defaults = defaults
        self._cache: LRUCache[tuple[str, tuple[str | None, ...]], tuple[CatalogAgent, Applied]] = LRUCache(_CACHED)
        """By the agent's id and the ids of the scopes in the order of the levels; with the agent that it was made of,
        as a reload of the catalog makes others.
        """

    def applied(self, agent: CatalogAgent, scope: Mapping[str, str]) -> Applied:
        """What applies to `agent`, as the catalog has it, in `scope`."""
        known = {kind: scope.get(kind) for kind in (*_BEFORE_AGENT, *_AFTER_AGENT)}
        ids = tuple(scope_id if self._policies.entry(kind, scope_id) else None for kind, scope_id in known.items())
        key = agent.settings.id, ids
        of, applied = self._cache.get(key, (None, None))
        if applied is None or of is not agent:
            applied = self._apply(agent, scope)
            self._cache[key] = agent, applied
        return applied

    def _apply(self, agent: CatalogAgent, scope: Mapping[str, str]) -> Applied:
        levels = self._levels(agent, scope)
        applying = {name: told[-1] for name, told in levels.items()}
        values = {name: told.value for name, told in applying.items()}
        effective = Effective(
            model=values["model"],
            chat_profile=values["chat_profile"] or "default",
            max_messages=values["limits.max_messages"],
            max_duration_s=values["limits.max_duration_s"],
            available_at=values["available_at"],
            closes_at=values["closes_at"],
            modules={name.removeprefix("modules."): is_on for name, is_on in values.items() if _is_module(name)},
            prompts=prompt_texts(applying),
            levels=levels,
        )
        return Applied(self._with_settings(agent, scope, applying), effective)

    def _with_settings(
        self, agent: CatalogAgent, scope: Mapping[str, str], applying: Mapping[str, LevelValue]
    ) -> CatalogAgent:
        """The agent with the model, limits and chat profile that apply; the same object if that changes nothing.

        The crew of a leader gets the models that apply to its members.
        """
        settings = agent.settings
        limits = {name: _overriding(applying[f"limits.{name}"]) for name in _exchange_limits()}
        changed = {name: told.value for name, told in limits.items() if told is not None}
        updates: dict[str, Any] = {"limits": settings.limits.model_copy(update=changed)} if changed else {}
        if (model := _overriding(applying["model"])) is not None:
            updates["model"] = model.value
        if (profile := _overriding(applying["chat_profile"])) is not None:
            updates["chat"] = settings.chat.model_copy(update={"profile": profile.value})
        crew = [self.applied(member, scope).agent for member in agent.crew]
        if not updates and all(new is old for new, old in zip(crew, agent.crew, strict=True)):
            return agent
        return replace(agent, settings=settings.model_copy(update=updates), crew=crew)

    def _levels(self, agent: CatalogAgent, scope: Mapping[str, str]) -> _Levels:
        defaults = self._defaults()
        levels: _Levels = {name: [LevelValue("server", None, defaults.get(name))] for name in _NAMES}
        for told in self._told(agent, scope):
            for name, value in told:
                levels.setdefault(name, []).append(value)
        return levels

    def _told(self, agent: CatalogAgent, scope: Mapping[str, str]) -> Iterator[Iterator[tuple[str, LevelValue]]]:
        """What each level sets, the least specific first."""
        for kind in _BEFORE_AGENT:
            yield self._of_scope(kind, scope.get(kind))
        yield _of_agent(agent)
        for kind in _AFTER_AGENT:
            yield self._of_scope(kind, scope.get(kind))

    def _of_scope(self, kind: ScopeKind, scope_id: str | None) -> Iterator[tuple[str, LevelValue]]:
        entry = self._policies.entry(kind, scope_id)
        if entry is None or scope_id is None or self._policies.document is None:
            return
        file = Path(self._policies.document.file).name
        for name, value in entry.set_values:
            yield name, LevelValue(kind, scope_id, value, file, self._policies.line_of(kind, scope_id, name))


def _of_agent(agent: CatalogAgent) -> Iterator[tuple[str, LevelValue]]:
    """What the catalog's entry sets; its `null` stands for what wider levels say."""
    settings: AgentSettings = agent.settings
    values: dict[str, tuple[str, Any]] = {
        "model": ("model", settings.model),
        "chat_profile": ("chat.profile", settings.chat.profile),
        "limits.max_messages": ("session_limits.max_messages", settings.session_limits.max_messages),
        "limits.max_duration_s": ("session_limits.max_duration_s", settings.session_limits.max_duration_s),
    }
    values |= {f"limits.{name}": (f"limits.{name}", getattr(settings.limits, name)) for name in _exchange_limits()}
    for name, (place, value) in values.items():
        if value is not None:
            file, line = agent.place_of(place)
            yield name, LevelValue("agent", settings.id, value, file, line)


def _exchange_limits() -> list[str]:
    """The limits of an exchange that a scope may set."""
    return [name for name in ScopeLimits.model_fields if name in AgentLimits.model_fields]


def _overriding(told: LevelValue) -> LevelValue | None:
    """A value that is neither the server's nor the agent's own."""
    return None if told.level in ("server", "agent") else told


def _is_module(name: str) -> bool:
    return name.startswith("modules.")
