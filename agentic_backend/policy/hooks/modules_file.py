"""The modules file: `config/modules.yaml` read into one ModuleSpec per entry in use, in the order in which they run.

Reading imports the authors' modules. Any problem stops the start: a safety module must not be left out by mistake.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.code.class_path import ClassPathError, authors_code, import_also_from, resolve
from agentic_backend.config.setting_types import ClassPath, Seconds
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, KeyPath, LocatedYaml, read_yaml
from agentic_backend.config.yaml.validation_problems import near_miss, rule_broken, validation_problems
from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.hook_context import Point
from agentic_backend.system_errors import summary_of

METHODS: Mapping[Point, str] = {
    Point.SESSION_START: "session_start",
    Point.SESSION_END: "session_end",
    Point.ON_MESSAGE: "on_message",
    Point.BEFORE_AI: "before_ai",
    Point.AFTER_AI: "after_ai",
    Point.TOOL_RESULT: "tool_result",
}
"""The method of ChatModule that is called at each point."""
_MOST_MODULES = 100


class ModuleEntry(BaseModel):
    """One entry of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] = Field(
        description="What the audit, the metrics and the log call the module; unique."
    )
    class_path: ClassPath = Field(description="`module:name` of a subclass of ChatModule.")
    points: tuple[Annotated[Point, Field(strict=False)], ...] | None = Field(
        None, strict=False, description="Where it is called; `null` is wherever its class has a method."
    )
    priority: Annotated[int, Field(ge=1, le=99)] = Field(
        50, description="Modules run from the lowest to the highest, those of one priority in the order of the file."
    )
    timeout_s: Seconds = Field(5, description="How long one call may take, in seconds.")
    on_failure: Literal["continue", "block"] = Field(
        "continue", description="Whether a text that it failed to look at goes on, or is blocked."
    )
    agents: tuple[str, ...] = Field((), strict=False, description="Ids of the agents that it applies to.")
    tags: tuple[str, ...] = Field(
        (), strict=False, description="Tags of agents that it applies to; without agents and tags, it applies to all."
    )
    enabled: bool = Field(True, description="Whether it is used where no policy switches it on or off.")
    hold_output: bool = Field(
        False, description="Whether people see a text of the agent only when `chat:after_ai` has passed."
    )
    settings: dict[str, Any] = Field(default_factory=dict, repr=False, description="The module's own settings.")

    @model_validator(mode="after")
    def _holds_only_what_it_looks_at(self) -> Self:
        if self.hold_output and self.points is not None and Point.AFTER_AI not in self.points:
            raise rule_broken("a module without the point 'chat:after_ai' holds nothing", "hold_output")
        return self

    def applies_to(self, agent: AgentSettings) -> bool:
        """Whether it is used with `agent` where no policy says otherwise."""
        if not self.agents and not self.tags:
            return self.enabled
        return self.enabled and (agent.id in self.agents or any(tag in self.tags for tag in agent.tags))


@dataclass(frozen=True, slots=True)
class ModuleSpec:
    """An entry whose class was imported, and whose settings its class has accepted."""

    entry: ModuleEntry
    target: Callable[[Any, Any], ChatModule]
    """Makes the module of its settings and its services."""
    settings: BaseModel = field(repr=False)
    points: frozenset[Point]
    is_for: Callable[[AgentSettings], bool] | None = None
    """Of an application's, whether it is used with an agent; None: as the entry says."""

    def applies_to(self, agent: AgentSettings) -> bool:
        """Whether it is used with `agent` where no policy says otherwise."""
        return self.entry.applies_to(agent) if self.is_for is None else self.is_for(agent)


def module_names(path: Path | None) -> list[str]:
    """The names of all entries of the file at `path`, as far as it is well formed. Raises ConfigError."""
    values = read_yaml(path).values.get("modules") if path is not None else None
    names = [value.get("name") for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    return [name for name in names if isinstance(name, str)]


def read_modules(path: Path | None, agents: Collection[str], switched_on: Collection[str] = ()) -> list[ModuleSpec]:
    """The modules in use of the file at `path`, in the order in which they run; None is no file.

    In use are those that are enabled, and those of the names in `switched_on`; the classes and settings of others are
    not looked at. `agents` are the ids that entries may name. Blocks during the imports. Raises ConfigError with all
    problems.
    """
    if path is None:
        return []
    document = read_yaml(path)
    problems = [problem for _, problem in document.flaws]
    for key in document.values:
        if key != "modules":
            problems.append(document.problem((key,), f"unknown key {key!r}; only 'modules' stands here", at_key=True))
    values = document.values.get("modules", [])
    if not isinstance(values, list) or len(values) > _MOST_MODULES:
        wrong = document.problem(("modules",), f"expected a list of at most {_MOST_MODULES} modules")
        raise ConfigError([*problems, wrong])
    # Authors' modules are beside the file, or beside the directory that it is in.
    import_also_from(path.parent)
    specs: list[ModuleSpec] = []
    names: dict[str, int] = {}
    for index, value in enumerate(values):
        place = ("modules", index)
        try:
            entry = ModuleEntry.model_validate(value)
        except ValidationError as error:
            problems += validation_problems(error, ModuleEntry, document.problem, place)
            continue
        problems += _wrong_names(document, place, entry, agents, names)
        if entry.enabled or entry.name in switched_on:
            spec, found = _spec_of(document, place, entry)
            problems += found
            specs += [spec] if spec is not None else []
    if problems:
        raise ConfigError(problems)
    return sorted(specs, key=lambda spec: spec.entry.priority)


def _wrong_names(
    document: LocatedYaml, place: KeyPath, entry: ModuleEntry, agents: Collection[str], names: dict[str, int]
) -> Iterator[ConfigProblem]:
    """Problems with the entry's own name, which is added to `names`, and with the agents that it names."""
    if entry.name in names:
        first = names[entry.name]
        yield document.problem((*place, "name"), f"the name {entry.name!r} is taken by the module on line {first}")
    names.setdefault(entry.name, document.places[(*place, "name")].value.line)
    for index, agent_id in enumerate(entry.agents):
        if agent_id not in agents:
            hint = near_miss(agent_id, agents)
            yield document.problem((*place, "agents", index), f"there is no agent {agent_id!r}{hint}")


def _spec_of(
    document: LocatedYaml, place: KeyPath, entry: ModuleEntry
) -> tuple[ModuleSpec | None, list[ConfigProblem]]:
    try:
        target = resolve(entry.class_path)
        with authors_code("reading it"):
            if not (isinstance(target, type) and issubclass(target, ChatModule)):
                raise ClassPathError("is no subclass of ChatModule")
    except ClassPathError as error:
        return None, [document.problem((*place, "class_path"), str(error))]
    has = frozenset(
        point for point, method in METHODS.items() if getattr(target, method) is not getattr(ChatModule, method)
    )
    problems = [
        document.problem((*place, "points", index), f"the class has no method {METHODS[point]!r} of its own")
        for index, point in enumerate(entry.points or ())
        if point not in has
    ]
    points = has if entry.points is None else frozenset(entry.points)
    if not points:
        problems.append(document.problem((*place, "class_path"), "the class has no method of its own for any point"))
    if entry.hold_output and Point.AFTER_AI not in has:
        problems.append(document.problem((*place, "hold_output"), "the class has no method 'after_ai' of its own"))
    try:
        settings = target.Settings.model_validate(entry.settings)
    except ValidationError as error:
        return None, [
            *problems,
            *validation_problems(error, target.Settings, document.problem, (*place, "settings")),
        ]
    except Exception as error:
        # A validator of an author may raise anything; its text may quote a secret.
        wrong = f"the class can't read its settings: {summary_of(error, with_host=False)}"
        return None, [*problems, document.problem((*place, "settings"), wrong)]
    return (None if problems else ModuleSpec(entry, target, settings, points)), problems
