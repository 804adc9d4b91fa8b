"""The settings of sessions: how they end, how long they are kept, how they are named and shared."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from agentic_backend.config.setting_types import ModelName, NonEmpty, Section
from agentic_backend.config.yaml.validation_problems import rule_broken

Days = Annotated[int, Field(ge=1, le=3_650)]


KeptDays = Annotated[float, Field(gt=0, le=36_500)] | None


class RetentionSettings(Section):
    """The settings `retention`: how long what is stored is kept."""

    messages_days: KeptDays = Field(
        None,
        description="How many days after its last message, or its completion unless that was for inactivity, a session "
        "and its rows are deleted; `null` is never.",
    )
    audit_days: KeptDays = Field(
        None,
        description="How many days originals of changed texts, system prompts, failures of modules and reads of admins "
        "are kept; `null` is for good. Originals and prompts also go with their session.",
    )
    extractions_days: KeptDays = Field(
        None, description="How many days extractions are kept; `null` is for good. They also go with their session."
    )
    tool_calls_days: KeptDays = Field(
        None,
        description="How many days records of tool calls are kept; `null` is for good. They go with their session too.",
    )
    kpi_days: KeptDays = Field(None, description="How many days the KPIs of exchanges are kept; `null` is for good.")
    usage_days: KeptDays = Field(
        None,
        description="How many days the usage of models is kept, or as long as a budget counts it; `null` is for good.",
    )


class DeletionsSettings(Section):
    """The settings `deletions`: where deletions are noted, so that they are done again in a restored backup."""

    journal: str | None = Field(
        "auto",
        min_length=1,
        repr=False,
        description="Where deletions are noted, to be done again in a restored backup: a directory, or a `mongodb://` "
        "or `mongodb+srv://` URL, whose path names a database that is not the server's own. `auto` is the directory "
        "`deletions` beside the SQLite file, and nowhere with MongoDB; `null` is nowhere.",
    )
    keep_days: Days = Field(400, description="How many days they are kept at least: longer than the oldest backup is.")


class TitlesSettings(Section):
    """The settings `titles`: whether and by which model sessions are named."""

    enabled: bool = Field(
        True,
        description="Whether a model names sessions after their first message; else a session is called by its "
        "beginning.",
    )
    model: ModelName | None = Field(
        None, description="The model of `models` that names sessions, such as a small one; `null` is `default`."
    )


class SharingSettings(Section):
    """The settings `sharing`: whether sessions may be shared by links, and for how long."""

    enabled: bool = Field(
        True,
        description="Whether users may share a session by a link, which everybody who can sign in here may read; "
        "`false` closes all links too.",
    )
    default_days: Days = Field(7, description="After how many days a link expires where its user says nothing else.")
    longest_days: Days = Field(90, description="The most days that a user may choose.")

    @model_validator(mode="after")
    def _default_is_allowed(self) -> Self:
        if self.default_days > self.longest_days:
            raise rule_broken("must not be more than sharing.longest_days", "default_days")
        return self


class SessionsSettings(Section):
    inactive_h: Annotated[float, Field(gt=0, le=87_600)] | None = Field(
        None,
        description="After how many hours without a message a session is completed, so that nothing more can "
        "be asked in it, such as 24; `null` is never.",
    )
    farewell: NonEmpty = Field(
        "The conversation has ended. Goodbye!",
        description="The last message of a session that its user ends with the word `quit`.",
    )
