"""The settings `retention`: how long what is stored is kept."""

from typing import Annotated

from pydantic import Field

from agentic_backend.config.setting_types import Section

Days = Annotated[float, Field(gt=0, le=36_500)] | None


class RetentionSettings(Section):
    messages_days: Days = Field(
        None,
        description="How many days after its last message, or its completion unless that was for inactivity, a session "
        "and its rows are deleted; `null` is never.",
    )
    audit_days: Days = Field(
        None,
        description="How many days originals of changed texts, system prompts, failures of modules and reads of admins "
        "are kept; `null` is for good. Originals and prompts also go with their session.",
    )
    extractions_days: Days = Field(
        None, description="How many days extractions are kept; `null` is for good. They also go with their session."
    )
    tool_calls_days: Days = Field(
        None,
        description="How many days records of tool calls are kept; `null` is for good. They go with their session too.",
    )
    kpi_days: Days = Field(None, description="How many days the KPIs of exchanges are kept; `null` is for good.")
    usage_days: Days = Field(
        None,
        description="How many days the usage of models is kept, or as long as a budget counts it; `null` is for good.",
    )
