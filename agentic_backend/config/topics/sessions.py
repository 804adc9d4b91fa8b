"""The settings `sessions`: how sessions end."""

from typing import Annotated

from pydantic import Field

from agentic_backend.config.setting_types import NonEmpty, Section


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
