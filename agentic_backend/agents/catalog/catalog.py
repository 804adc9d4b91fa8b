"""The agents catalog: `agents_catalog.yaml` read into one AgentSettings per entry.

Pure: imports no agent. Invariant: a bad entry becomes a problem and never affects another entry.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from agentic_backend.agents.catalog.entry_parts import (
    CONFIGURED_AGENT,
    CONFIGURED_LEADER,
    LONGEST_PROMPT,
    ApiUse,
    CatalogPart,
    MiddlewareUse,
    Prompt,
    RequireApproval,
    ToolName,
    prompt_form,
)
from agentic_backend.config.setting_types import PROVIDER_MODEL, ClassPath, Count, RunSeconds, Seconds
from agentic_backend.config.topics.apis import NO_APIS, ApiSettings
from agentic_backend.config.topics.chat_profiles import DEFAULT_PROFILE
from agentic_backend.config.topics.permissions import ToolNeeds, means
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, KeyPath, LocatedYaml, read_yaml
from agentic_backend.config.yaml.validation_problems import near_miss, rule_broken, validation_problems
from agentic_backend.mcp import policy_names
from agentic_backend.system_errors import summary_of

AgentId = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        json_schema_extra={"expected": "an id of at most 64 letters, digits, '_', '.', '-' that begins with no sign"},
    ),
]

_LONGEST_ICON = 12
_ZERO_WIDTH_JOINER = "\u200d"


def _icon(value: str) -> str:
    kinds = [unicodedata.category(character)[0] for character in value]
    is_shown = all(kind in "LMNPS" or value[n] == _ZERO_WIDTH_JOINER for n, kind in enumerate(kinds))
    letters = sum(kind in "LN" for kind in kinds)
    if not value or len(value) > _LONGEST_ICON or letters > 3 or not is_shown:
        raise rule_broken("expected an emoji, or at most three letters")
    return value


class McpServerUse(CatalogPart):
    """An MCP server whose tools an agent uses."""

    id: str = Field(min_length=1, description="The server's id.")
    require_tools: tuple[str, ...] = Field((), strict=False, description="Tools without which the agent can't work.")
    tools: tuple[str, ...] | None = Field(
        None, strict=False, description="The tools that the agent gets; `null` is all of them."
    )


class AgentTuning(CatalogPart):
    # The keys of applications, by their ids; `read_entry` checks them.
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, Any]] = Field(init=False)

    fields: dict[str, Any] = Field(default_factory=dict, description="Values that the agent's code reads by name.")
    mcp_servers: tuple[McpServerUse, ...] = Field(
        (), strict=False, max_length=50, description="MCP servers that the agent uses, each once."
    )

    @property
    def of_applications(self) -> Mapping[str, Any]:
        """What the entry says to applications, by their ids."""
        return self.model_extra or {}


class AgentChat(CatalogPart):
    starters: tuple[str, ...] = Field((), strict=False, description="First messages that the chat page proposes.")
    history_exchanges: int | None = Field(
        None, ge=0, description="Past exchanges that the agent is given; `null` is the server's setting, 0 none."
    )
    profile: str | None = Field(
        None, min_length=1, description="The chat profile of its sessions; `null` is `default`."
    )


class AgentAccess(CatalogPart):
    roles: tuple[str, ...] = Field(
        (), strict=False, description="Roles, one of which a user needs to use the agent; none: everybody may."
    )

    def allows(self, roles: Collection[str]) -> bool:
        """Whether a user with these roles may use the agent."""
        return not self.roles or any(role in roles for role in self.roles)

    def covers(self, other: "AgentAccess") -> bool:
        """Whether everybody whom `other` lets in may use the agent."""
        return not self.roles or (bool(other.roles) and set(other.roles) <= set(self.roles))


class AgentStream(CatalogPart):
    final_only: bool = Field(False, description="Whether people see no text before the final of the graph.")
    nodes: tuple[str, ...] | None = Field(
        None, strict=False, description="Nodes that say what people see, with all that runs in them; `null` is all."
    )


_STREAMS: dict[str, dict[str, bool]] = {"all": {}, "final_only": {"final_only": True}}


def _stream(value: object) -> object:
    if not isinstance(value, str | int):
        return value
    if isinstance(value, str) and value in _STREAMS:
        return _STREAMS[value]
    raise rule_broken("expected 'all', 'final_only' or a mapping with the key 'nodes'")


class AgentLimits(CatalogPart):
    """What one exchange of an agent may take; beyond a limit it ends with `limit_reached`."""

    silence_s: Seconds | None = Field(
        None,
        description="How long its graph may be silent while no tool runs, in seconds; `null` is "
        "`limits.model_timeout_s` of the settings.",
    )
    tool_s: Seconds | None = Field(
        None,
        description="How long a tool may run without a sign of life, in seconds; `null` is `limits.tool_timeout_s` of "
        "the settings.",
    )
    run_s: RunSeconds | None = Field(
        None,
        description="How long an exchange may run, in seconds, without the time in which it waits for a person; `null` "
        "is `limits.run_timeout_s` of the settings.",
    )
    steps: Count | None = Field(
        None,
        description="LangGraph's `recursion_limit`: steps of a graph from its start, or from a pause, to its end; "
        "`null` is the graph's own; at most `limits.steps` of the settings.",
    )
    model_calls: Count | None = Field(None, description="Calls of models; `null` is no limit.")
    tool_calls: Count | None = Field(None, description="Calls of tools; `null` is no limit.")
    tokens: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None, description="Tokens that its models read and write; `null` is no limit."
    )


class SessionLimits(CatalogPart):
    """What a session with an agent may take; an ask beyond it completes the session."""

    max_messages: Count | None = Field(None, description="Messages that the user may send; `null` is no limit.")
    max_duration_s: Annotated[float, Field(gt=0, le=31_536_000)] | None = Field(
        None, description="How long the session may last from its beginning, in seconds; `null` is no limit."
    )


class AgentSettings(CatalogPart):
    """One entry of the catalog."""

    id: AgentId = Field(description="What clients call the agent; unique.")
    name: str = Field(
        default_factory=lambda entry: str(entry.get("id", "")),
        min_length=1,
        description="What people see; else the id.",
    )
    description: str = Field("", description="What the agent is for, in a sentence.")
    icon: Annotated[str, AfterValidator(_icon)] | None = Field(
        None, description="Its mark: an emoji, or at most three letters; `null` is the first ones of its name."
    )
    tags: tuple[str, ...] = Field((), strict=False, description="Words to group agents by.")
    type: Literal["agent", "leader"] = Field("agent", description="A leader hands work to its crew.")
    crew: tuple[str, ...] = Field((), strict=False, description="Ids of the agents that a leader leads.")
    class_path: ClassPath = Field(
        default_factory=lambda entry: CONFIGURED_LEADER if entry.get("type") == "leader" else CONFIGURED_AGENT,
        description="`module:name` of an AgentFlow class, a compiled graph, or a function that returns one; without it "
        "the entry itself makes the agent.",
    )
    enabled: bool = Field(True, description="Whether the agent is served.")
    default: bool = Field(False, description="Whether an ask that names no agent gets this one; else the first does.")
    model: str | None = Field(
        None, min_length=1, description="A name from the setting `models`, or `provider:model`; `null` is `default`."
    )
    access: AgentAccess = Field(AgentAccess(), description="Who may use the agent.")
    require_approval: RequireApproval = Field(
        (), description="Tools, by name or by pattern, that a person has to approve of at each call."
    )
    prompt: Annotated[Prompt, BeforeValidator(prompt_form)] | None = Field(
        None, description="The system prompt of an agent without code of its own: a text, or the `file` that has it."
    )
    tools: Annotated[tuple[ToolName, ...], Field(strict=False)] = Field(
        (),
        description="Tools that the agent gets, beside those that its code brings: standard tools by name, and Python "
        "functions or LangChain tools by `module:name`.",
    )
    apis: tuple[ApiUse, ...] = Field(
        (),
        strict=False,
        max_length=20,
        description="HTTP APIs of the settings whose operations an agent without code of its own gets.",
    )
    middleware: tuple[MiddlewareUse, ...] = Field(
        (),
        strict=False,
        max_length=50,
        description="Middleware of an agent without code of its own, the outermost first.",
    )
    output: dict[str, Any] | None = Field(
        None,
        description="JSON Schema of what an agent without code of its own answers with, as an object; `null`: text.",
    )
    permissions: ToolNeeds = Field(
        {}, description="Permissions that tools need, such as `{send_*: [mail:write:self]}`, by name or by pattern."
    )
    auto_resume: bool = Field(
        False, description="Whether what a crash has interrupted goes on by itself: the agent can be run again."
    )
    stream: Annotated[AgentStream, BeforeValidator(_stream)] = Field(
        AgentStream(), description="Which texts people see: `all`, `final_only`, or those of some `nodes`."
    )
    hold_output: bool = Field(
        False, description="Whether people see a text of the agent only once it is complete and modules have passed it."
    )
    store: Literal["user", "shared", "none"] = Field(
        "user",
        description="Whose items the agent's graph finds in LangGraph's store: the user's, those that all users share, "
        "or no store unless it was compiled with one.",
    )
    limits: AgentLimits = Field(AgentLimits(), description="What one exchange of the agent may take.")
    session_limits: SessionLimits = Field(SessionLimits(), description="What a session with the agent may take.")
    tuning: AgentTuning = Field(AgentTuning(), description="What the agent's code is given.")
    chat: AgentChat = Field(AgentChat(), description="How the agent appears in a chat.")

    @model_validator(mode="after")
    def _only_a_leader_has_a_crew(self) -> Self:
        if self.crew and self.type != "leader":
            raise rule_broken("only an agent of type 'leader' has a crew", "crew")
        return self

    @model_validator(mode="after")
    def _all_stands_alone(self) -> Self:
        if "all" in self.require_approval:
            raise rule_broken("'all' stands alone: 'require_approval: all'", "require_approval")
        return self

    def requires_approval_of(self, tool: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Whether a person has to approve of each call of the `tool` with this metadata."""
        names = policy_names(tool, metadata)
        return any(means(pattern, names) for pattern in self.require_approval)

    @property
    def approved_names(self) -> Sequence[str]:
        """The tool names in `require_approval`, without the patterns."""
        return [name for name in self.require_approval if not any(sign in name for sign in "*?[")]


@dataclass(frozen=True)
class CatalogEntry:
    """`id` is None if it can't be read; `settings` is None if the entry is bad."""

    path: KeyPath
    id: str | None
    settings: AgentSettings | None
    document: LocatedYaml

    def problem(self, place: KeyPath, message: str) -> ConfigProblem:
        """A problem with the value at `place` in the entry."""
        return self.document.problem((*self.path, *place), message)


@dataclass(frozen=True)
class AgentsCatalog:
    document: LocatedYaml
    entries: list[CatalogEntry]
    problems: list[ConfigProblem]


class ApplicationKeys(NamedTuple):
    """The keys that applications have in `tuning`: the models of what they say, by the ids of the applications."""

    models: Mapping[str, type[BaseModel]] = {}
    are_all: bool = True
    """Whether all applications could be loaded; else a key may be of one that was not, and stays."""


NO_KEYS = ApplicationKeys()


class KnownNames(NamedTuple):
    """The names of the settings that an entry may refer to."""

    models: Collection[str]
    mcp_servers: Collection[str] = ()
    chat_profiles: Collection[str] = (DEFAULT_PROFILE,)
    other_models: bool = True
    """Whether `provider:model` may be named too."""
    apis: Mapping[str, ApiSettings] = NO_APIS
    applications: ApplicationKeys = NO_KEYS


def read_catalog(path: Path, known: KnownNames) -> AgentsCatalog:
    """The entries of the catalog at `path`, with the texts of the files that they name.

    Raises ConfigError if the file is not YAML or has no list `agents`.
    """
    document = read_yaml(path)
    problems = [problem for _, problem in document.flaws]
    values = document.values.get("agents")
    if not isinstance(values, list):
        missing = document.problem(("agents",), "expected a list of agents under the key 'agents'")
        raise ConfigError([*problems, missing])
    for key in document.values:
        if key != "agents":
            problems.append(document.problem((key,), f"unknown key {key!r}; only 'agents' stands here", at_key=True))
    entries: list[CatalogEntry] = []
    for index, value in enumerate(values):
        entry, found = read_entry(document, ("agents", index), value, known, entries)
        problems += found
        if entry.settings is not None:
            try:
                entry = replace(entry, settings=with_prompt_text(entry.settings, path.parent))
            except ValueError as error:
                problems.append(entry.problem(("prompt", "file"), str(error)))
                entry = replace(entry, settings=None)
        entries.append(entry)
    return AgentsCatalog(document, entries, problems)


def read_entry(
    document: LocatedYaml, path: KeyPath, value: Any, known: KnownNames, earlier: Sequence[CatalogEntry] = ()
) -> tuple[CatalogEntry, list[ConfigProblem]]:
    """The entry at `path`, after the `earlier` ones of the same document, and its problems."""
    readable = value.get("id") if isinstance(value, dict) else None
    agent_id = readable if isinstance(readable, str) else None
    is_flawed = any(place[: len(path)] == path for place, _ in document.flaws)
    problems: list[ConfigProblem] = []
    settings = None
    try:
        settings = AgentSettings.model_validate(value)
    except ValidationError as error:
        problems += validation_problems(error, AgentSettings, document.problem, path)
    else:
        problems += [document.problem(path + place, message) for place, message in _unknown_names(settings, known)]
        problems += _wrong_keys(settings.tuning, known.applications, document, (*path, "tuning"))
    for other in earlier:
        if agent_id is not None and other.id == agent_id:
            first = document.places[(*other.path, "id")].value.line
            problems.append(
                document.problem((*path, "id"), f"the id {agent_id!r} is taken by the agent on line {first}")
            )
            break
    return CatalogEntry(path, agent_id, None if problems or is_flawed else settings, document), problems


def misfits(
    model: type[BaseModel], value: Mapping[str, Any], document: LocatedYaml, path: KeyPath, where: str
) -> list[ConfigProblem]:
    """What of the value at `path` does not fit an author's model, which is in `where`."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return validation_problems(error, model, document.problem, path)
    except Exception as error:
        # A validator is an author's code.
        return [document.problem(path, f"can't be checked: {summary_of(error, with_host=False)} in {where}")]
    return []


def _wrong_keys(
    tuning: AgentTuning, known: ApplicationKeys, document: LocatedYaml, path: KeyPath
) -> list[ConfigProblem]:
    """What is wrong with the keys of applications."""
    problems: list[ConfigProblem] = []
    for key, value in tuning.of_applications.items():
        model = known.models.get(key)
        if model is not None:
            problems += misfits(model, value, document, (*path, key), f"the application {key!r}")
        elif known.are_all:
            hint = near_miss(key, [*AgentTuning.model_fields, *known.models])
            problems.append(document.problem((*path, key), f"unknown key {key!r}{hint}", at_key=True))
    return problems


def _unknown_names(settings: AgentSettings, known: KnownNames) -> Iterator[tuple[KeyPath, str]]:
    """The references to names that the settings don't have: place in the entry, and message."""
    if settings.model is not None and (reason := no_model(settings.model, known)):
        yield ("model",), reason
    profile = settings.chat.profile
    if profile is not None and profile not in known.chat_profiles:
        hint = near_miss(profile, known.chat_profiles) or f"; there is {', '.join(sorted(known.chat_profiles))}"
        yield ("chat", "profile"), f"there is no chat profile {profile!r}{hint}"
    ids = [use.id for use in settings.tuning.mcp_servers]
    for index, use in enumerate(settings.tuning.mcp_servers):
        if use.id in ids[:index]:
            yield ("tuning", "mcp_servers", index, "id"), f"the MCP server {use.id!r} is there already"
        if use.id not in known.mcp_servers:
            hint = _hint(use.id, known.mcp_servers)
            yield ("tuning", "mcp_servers", index, "id"), f"there is no MCP server {use.id!r}{hint}"
    for index, api in enumerate(settings.apis):
        if api.id not in known.apis:
            yield ("apis", index, "id"), f"there is no API {api.id!r}{_hint(api.id, known.apis)}"


def with_prompt_text(settings: AgentSettings, folder: Path) -> AgentSettings:
    """The entry with the text of its prompt's file. Raises ValueError, which says why it has none."""
    prompt = settings.prompt
    if prompt is None or prompt.file is None:
        return settings
    try:
        with (folder / prompt.file).open(encoding="utf-8-sig") as file:
            text = file.read(LONGEST_PROMPT + 1)
    except UnicodeDecodeError:
        raise ValueError("this file is not UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"this file can't be read: {error.strerror}") from error
    if not text.strip() or len(text) > LONGEST_PROMPT:
        raise ValueError(f"this file is empty or has more than {LONGEST_PROMPT} characters")
    return settings.model_copy(update={"prompt": Prompt(text=text, file=prompt.file)})


def no_model(model: str, known: KnownNames) -> str | None:
    """Why an entry can't name `model`; None if it can."""
    if model in known.models or (known.other_models and re.fullmatch(PROVIDER_MODEL, model)):
        return None
    hint = _hint(model, known.models)
    if not known.other_models:
        return f"there is no model {model!r} in the settings{hint}"
    return f"there is no model {model!r}, nor is this a model such as 'openai:gpt-5.5'{hint}"


def _hint(name: str, known: Collection[str]) -> str:
    return near_miss(name, known) or f"; the settings have {', '.join(known) or 'none'}"
