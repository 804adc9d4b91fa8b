"""The settings of the metrics."""

from pydantic import Field

from agentic_backend.config.setting_types import Section


class MetricsSettings(Section):
    legacy_names: bool = Field(
        False,
        description="Also gives the metrics of models and tools by the names that they had before those of "
        "OpenTelemetry's GenAI conventions.",
    )
