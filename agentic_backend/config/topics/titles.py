"""The settings `titles`: whether and by which model sessions are named."""

from pydantic import Field

from agentic_backend.config.setting_types import ModelName, Section


class TitlesSettings(Section):
    enabled: bool = Field(
        True,
        description="Whether a model names sessions after their first message; else a session is called by its "
        "beginning.",
    )
    model: ModelName | None = Field(
        None, description="The model of `models` that names sessions, such as a small one; `null` is `default`."
    )
