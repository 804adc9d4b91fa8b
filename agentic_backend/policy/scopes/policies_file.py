"""The policies file: `config/policies.yaml` read into what organisations, classes, tasks and assignments set.

Pure. An entry that has a problem stops the start: without it, the rules of an organisation would silently not apply.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from agentic_backend.auth.user import User
from agentic_backend.config.setting_types import PROVIDER_MODEL, Count, RunSeconds, ScopeId
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.chat_profiles import ChatProfiles
from agentic_backend.config.yaml.located_yaml import ConfigError, KeyPath, LocatedYaml, read_yaml
from agentic_backend.config.yaml.validation_problems import near_miss, validation_problems
from agentic_backend.protocol.scopes import ScopeKind

# The year is a bound, not a use: a session that may last for good has no limit.
SessionSeconds = Annotated[float, Field(gt=0, le=31_536_000)]
PromptLine = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
Topic = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


def _moment(value: object) -> object:
    """YAML has times of its own; in quotes they are texts. Without a zone nobody knows which moment is meant."""
    with suppress(ValueError):
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return value
    raise ValueError(f"expected a time with its zone, such as 2026-03-01T08:00:00+01:00, found {str(value)[:100]}")


def _group_path(value: str) -> str:
    if not re.fullmatch(r"(/[^/\x00-\x1f]+)+", value):
        raise ValueError("expected a path, such as /schools/acme")
    return value


GroupPath = Annotated[str, StringConstraints(max_length=1_000), AfterValidator(_group_path)]
Moment = Annotated[datetime | None, BeforeValidator(_moment)]

FILES_KEYS: Mapping[str, str] = {
    "organisation": "organisations",
    "class": "classes",
    "task": "tasks",
    "assignment": "assignments",
}
"""The key of the file under which the entries of each kind stand."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ScopeAccess(_Part):
    """Who may use a scope: a user with one of the roles or in one of the groups.

    With neither list, everybody who may use what the scope is in; an empty list admits nobody.
    """

    groups: tuple[str, ...] = Field((), strict=False)
    roles: tuple[str, ...] = Field((), strict=False)

    @property
    def has_lists(self) -> bool:
        return bool(self.model_fields_set)

    def allows(self, user: User) -> bool:
        """Whether the lists admit the user."""
        return not user.groups.isdisjoint(self.groups) or not user.roles.isdisjoint(self.roles)


class ScopeLimits(_Part):
    """Limits of a session, and of an exchange as in a catalog entry. `null` lifts the limit of a wider level."""

    max_messages: Count | None = None
    max_duration_s: SessionSeconds | None = None
    steps: Count | None = None
    model_calls: Count | None = None
    tool_calls: Count | None = None
    tokens: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    run_s: RunSeconds | None = None


class ScopePrompts(_Part):
    """What the system prompt says beside the agent's own part. `null` takes away what a wider level says."""

    instructions: PromptLine | None = None
    topics: Annotated[tuple[Topic, ...], Field(max_length=100, strict=False)] | None = None
    no_direct_answers: bool | None = None
    rules: Annotated[tuple[PromptLine, ...], Field(max_length=100, strict=False)] | None = None
    guidance: PromptLine | None = None


class ScopeEntry(_Part):
    """What one organisation, class, task or assignment sets; an assignment and a class also say what they are in."""

    name: str | None = Field(None, min_length=1, max_length=200)
    access: ScopeAccess = ScopeAccess()
    model: str | None = Field(None, min_length=1)
    chat_profile: str | None = Field(None, min_length=1)
    limits: ScopeLimits = ScopeLimits()
    modules: dict[str, bool] = Field(default_factory=dict)
    prompts: ScopePrompts = ScopePrompts()

    @property
    def parents(self) -> Mapping[ScopeKind, str]:
        """The wider scopes that this one is in."""
        return {}

    @property
    def own_values(self) -> Sequence[str]:
        """The names of the values at the entry itself that it may set."""
        return ("model", "chat_profile")

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its people may be told: its name, and what it asks for."""
        told = {"name": self.name, **self.prompts.model_dump(include={"instructions", "topics", "rules"})}
        return {name: value for name, value in told.items() if value}

    @property
    def set_values(self) -> Iterator[tuple[str, Any]]:
        """What it sets, by dotted name; a value may be None."""
        for name in self.own_values:
            if name in self.model_fields_set:
                yield name, getattr(self, name)
        for section in ("limits", "prompts"):
            part: BaseModel = getattr(self, section)
            yield from ((f"{section}.{name}", getattr(part, name)) for name in sorted(part.model_fields_set))
        yield from ((f"modules.{name}", is_on) for name, is_on in self.modules.items())


class OrganisationEntry(ScopeEntry):
    """`path` is its place in the tree of groups, as the identity provider writes it, such as `/schools/acme`."""

    path: GroupPath | None = None


class ClassEntry(ScopeEntry):
    organisation: ScopeId | None = None

    @property
    def parents(self) -> Mapping[ScopeKind, str]:
        return {"organisation": self.organisation} if self.organisation is not None else {}


class AssignmentEntry(ClassEntry):
    """From `available_at` on, and before `closes_at`, its people may ask in it."""

    task: ScopeId | None = None
    class_: ScopeId | None = Field(None, alias="class")
    available_at: Moment = None
    closes_at: Moment = None
    _hours: ClassVar = ("available_at", "closes_at")

    @model_validator(mode="after")
    def _opens_before_it_closes(self) -> Self:
        if self.available_at is not None and self.closes_at is not None and self.available_at >= self.closes_at:
            raise ValueError("available_at must be before closes_at")
        return self

    @property
    def own_values(self) -> Sequence[str]:
        return (*super().own_values, *self._hours)

    @property
    def facts(self) -> Mapping[str, Any]:
        hours = {name: getattr(self, name) for name in self._hours}
        return {**super().facts, **{name: time.isoformat() for name, time in hours.items() if time is not None}}

    @property
    def parents(self) -> Mapping[ScopeKind, str]:
        named: dict[ScopeKind, str | None] = {
            "task": self.task,
            "class": self.class_,
            "organisation": self.organisation,
        }
        return {kind: name for kind, name in named.items() if name is not None}


class _File(_Part):
    organisations: dict[ScopeId, OrganisationEntry] = Field(default_factory=dict)
    classes: dict[ScopeId, ClassEntry] = Field(default_factory=dict)
    tasks: dict[ScopeId, ScopeEntry] = Field(default_factory=dict)
    assignments: dict[ScopeId, AssignmentEntry] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policies:
    """What the file says; without a file, nothing."""

    document: LocatedYaml | None = None
    entries: Mapping[str, Mapping[str, ScopeEntry]] = field(default_factory=dict)
    """By kind and id."""

    def entry(self, kind: str, scope_id: str | None) -> ScopeEntry | None:
        return None if scope_id is None else self.entries.get(kind, {}).get(scope_id)

    def line_of(self, kind: ScopeKind, scope_id: str, name: str) -> int | None:
        """The line of the value with this dotted name."""
        if self.document is None:
            return None
        section, _, key = name.partition(".")
        path = (FILES_KEYS[kind], scope_id, section, key) if key else (FILES_KEYS[kind], scope_id, section)
        place = self.document.places.get(path)
        return place.value.line if place is not None else None

    @property
    def models(self) -> set[str]:
        """The models that entries name."""
        return {entry.model for entry in self._every_entry if entry.model is not None}

    @property
    def modules_on(self) -> set[str]:
        """The modules that entries switch on."""
        return {name for entry in self._every_entry for name, is_on in entry.modules.items() if is_on}

    @property
    def _every_entry(self) -> Iterator[ScopeEntry]:
        return (entry for entries in self.entries.values() for entry in entries.values())


class KnownNames(NamedTuple):
    """The names that entries may refer to."""

    models: Collection[str]
    chat_profiles: Collection[str]
    modules: Collection[str]


def load_policies(settings: Settings, profiles: ChatProfiles, modules: Collection[str]) -> Policies:
    """The policies of the file that the settings name, where `modules` have these names.

    Raises ConfigError with all problems.
    """
    return read_policies(settings.policies.path, KnownNames(settings.models.keys(), profiles.names, modules))


def read_policies(path: Path | None, known: KnownNames) -> Policies:
    """The policies in the file at `path`; None is none. Raises ConfigError with all problems."""
    if path is None:
        return Policies()
    document = read_yaml(path)
    problems = [problem for _, problem in document.flaws]
    try:
        file = _File.model_validate(document.values)
    except ValidationError as error:
        raise ConfigError([*problems, *validation_problems(error, _File, document.problem)]) from error
    policies = Policies(document, {kind: getattr(file, key) for kind, key in FILES_KEYS.items()})
    problems += [document.problem(place, message) for place, message in _unknown_names(policies, known)]
    if problems:
        raise ConfigError(problems)
    return policies


def _unknown_names(policies: Policies, known: KnownNames) -> Iterator[tuple[KeyPath, str]]:
    """The references to names that there are not: place in the file, and message."""
    for kind, entries in policies.entries.items():
        for scope_id, entry in entries.items():
            place = (FILES_KEYS[kind], scope_id)
            if entry.model is not None and not re.fullmatch(PROVIDER_MODEL, entry.model):
                yield from _unless_known("model", entry.model, known.models, (*place, "model"))
            if entry.chat_profile is not None:
                yield from _unless_known(
                    "chat profile", entry.chat_profile, known.chat_profiles, (*place, "chat_profile")
                )
            for module in entry.modules:
                yield from _unless_known("module", module, known.modules, (*place, "modules", module))
            for parent, name in entry.parents.items():
                yield from _unless_known(parent, name, policies.entries[parent], (*place, parent))


def _unless_known(what: str, name: str, known: Collection[str], place: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if name not in known:
        hint = near_miss(name, known) or f"; there is {', '.join(sorted(known)[:20]) or 'none'}"
        yield place, f"there is no {what} {name!r}{hint}"
