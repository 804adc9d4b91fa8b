"""The settings `sharing`: whether sessions may be shared by links, and for how long."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from agentic_backend.config.setting_types import Section
from agentic_backend.config.yaml.validation_problems import rule_broken

Days = Annotated[int, Field(ge=1, le=3_650)]


class SharingSettings(Section):
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
