"""Chat profiles: how much of a conversation an agent is given, and when its earlier part is summarised.

The file's profiles are added to the three built-in ones; a profile with the name of a built-in one changes the values
that it names. The names of the keys are those of requirements/D. Immutable; a reload reads others.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from agentic_backend.config.setting_types import AnyPath, ModelName, Seconds, Section
from agentic_backend.config.yaml.located_yaml import ConfigError, KeyPath, LocatedYaml, read_yaml
from agentic_backend.config.yaml.validation_problems import near_miss, validation_problems
from agentic_backend.errors import BadFrame

DEFAULT_PROFILE = "default"

_DEFAULT_FILE = Path("config", "chat_profiles.yaml")
_MOST_TOKENS = 10_000_000

ProfileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
# The summary comes before the history, which in requirements/D comes before what a retrieval has found.
SummaryPosition = Annotated[
    Literal["before_history", "system_prompt"],
    BeforeValidator(lambda value: "before_history" if value == "before_retrieval" else value),
    Field(json_schema_extra={"expected": "'before_history' or 'system_prompt'"}),
]


class ChatProfilesSettings(Section):
    file: AnyPath | None = Field(
        None,
        description="The file of chat profiles; `null` is `./config/chat_profiles.yaml` if it is there, else the "
        "profiles `default`, `long_context` and `compact`.",
    )
    summary_timeout_s: Seconds = Field(30, description="How long a model may take to summarise, in seconds.")

    @property
    def path(self) -> Path | None:
        """The file to read; None if there is none to read."""
        if self.file is not None:
            return self.file
        return _DEFAULT_FILE if _DEFAULT_FILE.is_file() else None


class ChatProfile(BaseModel):
    """One profile. Tokens are counted as for the model's context, turns are exchanges."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    description: str = Field("", max_length=1_000)
    compaction_threshold_tokens: Annotated[int, Field(ge=100, le=_MOST_TOKENS)] | None = 2_000
    """A history of more tokens is compacted; None is no limit."""
    max_history_turns: Annotated[int, Field(ge=1, le=10_000)] | None = 10
    """A history of more turns is compacted; None is no limit."""
    summarization_model: ModelName | None = None
    """The model of the settings that summarises; None is `default`."""
    summarization_max_tokens: Annotated[int, Field(ge=20, le=100_000)] = 500
    """The most tokens of a summary."""
    include_summary_in_context: bool = True
    """Whether agents are given the summary; if not, the turns that it stands for are just left out."""
    summary_position: SummaryPosition = "before_history"
    """Where agents find the summary: before the turns that are left, or in the system prompt."""
    reserve_tokens_for_history: Annotated[int, Field(ge=0, le=_MOST_TOKENS)] = 800
    """Tokens of the model's context that the history leaves free, for the answer."""
    instructions: Annotated[str, StringConstraints(strip_whitespace=True, max_length=20_000)] = ""
    """What the system prompt says in its section `profile`."""

    @property
    def compacts(self) -> bool:
        """Whether histories are ever compacted: not without any limit."""
        return self.compaction_threshold_tokens is not None or self.max_history_turns is not None


def _built_in(description: str, tokens: int, turns: int, summary: int, reserve: int) -> Mapping[str, Any]:
    return {
        "description": description,
        "compaction_threshold_tokens": tokens,
        "max_history_turns": turns,
        "summarization_max_tokens": summary,
        "reserve_tokens_for_history": reserve,
    }


_BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    DEFAULT_PROFILE: _built_in("For most conversations", 2_000, 10, 500, 800),
    "long_context": _built_in("For conversations that come back to what was said long ago", 4_000, 20, 800, 1_500),
    "compact": _built_in("For short conversations and small models", 1_000, 5, 300, 500),
}


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    description: str = ""
    profiles: dict[ProfileName, ChatProfile] = Field(default_factory=dict, max_length=1_000)
    default_profile: str = DEFAULT_PROFILE


@dataclass(frozen=True, slots=True)
class ChatProfiles:
    profiles: Mapping[str, ChatProfile]
    """By name."""
    default_name: str = DEFAULT_PROFILE
    """The profile of sessions for which nobody has named one."""

    @property
    def names(self) -> list[str]:
        return sorted(self.profiles)

    def named(self, name: str | None) -> ChatProfile:
        """The profile called `name`, or the default one; also if the one that a session has kept is gone."""
        return self.profiles.get(name or self.default_name) or self.profiles[self.default_name]

    def check(self, name: str | None) -> None:
        """Raise BadFrame, naming those there are, if a client names a profile that is not there."""
        if name is not None and name not in self.profiles:
            raise BadFrame(f"chat_profile: there is no such profile; the profiles are {', '.join(self.names)}")


CurrentProfiles = Callable[[], ChatProfiles]
"""Gives the chat profiles that apply now: a reload may replace them."""

BUILT_IN_PROFILES = ChatProfiles({name: ChatProfile(**values) for name, values in _BUILT_IN.items()})


def read_chat_profiles(path: Path | None, models: Collection[str]) -> ChatProfiles:
    """The profiles of the file at `path`, beside the built-in ones; None is no file.

    `models` are the names that `summarization_model` may have. Raises ConfigError with all problems.
    """
    if path is None:
        return BUILT_IN_PROFILES
    document = read_yaml(path)
    problems = [problem for _, problem in document.flaws]
    try:
        file = _File.model_validate({**document.values, "profiles": _with_built_in(document)})
    except ValidationError as error:
        raise ConfigError([*problems, *validation_problems(error, _File, document.problem)]) from error
    problems += [document.problem(place, message) for place, message in _unknown_names(file, models)]
    if problems:
        raise ConfigError(problems)
    return ChatProfiles(file.profiles, file.default_profile)


def _with_built_in(document: LocatedYaml) -> Any:
    """The file's profiles over the built-in ones; what is no mapping is refused by the validation."""
    profiles = document.values.get("profiles", {})
    if not isinstance(profiles, dict):
        return profiles
    changed = {
        name: {**_BUILT_IN[name], **profile} if name in _BUILT_IN and isinstance(profile, dict) else profile
        for name, profile in profiles.items()
    }
    return {**_BUILT_IN, **changed}


def _unknown_names(file: _File, models: Collection[str]) -> Iterator[tuple[KeyPath, str]]:
    """The references to names that there are not: place in the file, and message."""
    if file.default_profile not in file.profiles:
        hint = near_miss(file.default_profile, file.profiles) or f"; there is {', '.join(sorted(file.profiles))}"
        yield ("default_profile",), f"there is no chat profile {file.default_profile!r}{hint}"
    for name, profile in file.profiles.items():
        model = profile.summarization_model
        if model is not None and model not in models:
            hint = near_miss(model, models) or f"; the settings have {', '.join(sorted(models))}"
            yield ("profiles", name, "summarization_model"), f"there is no model {model!r}{hint}"
