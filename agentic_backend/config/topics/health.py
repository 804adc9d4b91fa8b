"""The settings of liveness and readiness."""

from typing import Annotated

from pydantic import Field

from agentic_backend.config.setting_types import Section


class HealthSettings(Section):
    ready_timeout_s: Annotated[float, Field(gt=0, le=30)] = Field(
        0.5, description="How long the write may take by which `/health/ready` proves that the store takes writes."
    )
    ready_failures: Annotated[int, Field(ge=1, le=100)] = Field(
        2,
        description="So many of these writes, one a second, have to fail one after the other before the server is not "
        "ready: instances that share a slow store should not all leave at once.",
    )
    live_after_s: Annotated[float, Field(ge=2, le=3600)] = Field(
        60, description="`/health/live` is 503 once the event loop has not turned for so long."
    )
