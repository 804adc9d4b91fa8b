"""The settings of health and traces."""

from typing import Annotated

from pydantic import Field

from agentic_backend.config.setting_types import HeaderName, HttpUrl, NonEmpty, Section


class TracingSettings(Section):
    """The settings of traces."""

    endpoint: HttpUrl | None = Field(
        None,
        description="Where traces are sent by OTLP over HTTP, as a whole URL, such as "
        "`http://collector:4318/v1/traces`; `null` sends none.",
    )
    headers: dict[HeaderName, NonEmpty] = Field(
        {},
        max_length=20,
        repr=False,
        description="Headers of these requests, such as the key of the service; a secret, as JSON also in "
        "`AGENTIC_TRACING__HEADERS` or in the file that `AGENTIC_TRACING__HEADERS_FILE` names.",
    )
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0,
        description="The share of the calls whose traces are sent, with the exchanges that they begin. Where a client "
        "sends a `traceparent`, its own decision holds.",
    )
    content: bool = Field(
        False,
        description="Whether spans hold what people, models and tools have said, up to 16 kB for each side; never what "
        "a module keeps back.",
    )
    service: NonEmpty = Field("agentic-backend", description="The traces' `service.name`.")


class HealthSettings(Section):
    """The settings of liveness and readiness."""

    ready_timeout_s: Annotated[float, Field(gt=0, le=30)] = Field(
        0.5, description="How long the write may take by which `/health/ready` proves that the store takes writes."
    )
    live_after_s: Annotated[float, Field(ge=2, le=3600)] = Field(
        60, description="`/health/live` is 503 once the event loop has not turned for so long."
    )
