"""The settings `limits`: bounds for clients, agents and models, per process and per user."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from agentic_backend.config.setting_types import Bytes, Count, RunSeconds, Seconds, Section
from agentic_backend.config.yaml.validation_problems import rule_broken

PerUser = Annotated[Count | None, BeforeValidator(lambda value: None if value == "auto" else value)]
"""A limit per user; None is no limit. `auto` is none too, unless `Settings` replaces it by a number."""

WITH_USERS = {
    "running_per_user": 10,
    "waiting_per_user": 50,
    "asks_per_minute": 60,
    "sockets_per_user": 20,
    "requests_per_user": 16,
    "empty_sessions_per_user": 200,
    "uploads_per_user": 4,
    "uploads_per_minute": 60,
}
"""The default limits per user with `auth.mode: keycloak`."""


def of_a_user(name: str, what: str) -> Any:
    """The field for a limit in WITH_USERS."""
    meaning = f"`auto` is {WITH_USERS[name]} with `auth.mode: keycloak`, else no limit; `null` is no limit."
    return Field("auto", validate_default=True, description=f"{what}; {meaning}")


class LimitsSettings(Section):
    message_bytes: Bytes = Field(262_144, description="Largest message of a user, in bytes of UTF-8.")
    frame_bytes: Bytes = Field(2_097_152, description="Largest frame or request body that is read, in bytes.")
    runtime_context_bytes: Bytes = Field(16_384, description="Largest `runtime_context` of an ask, in bytes of JSON.")
    max_running: Count = Field(500, description="Exchanges that may run at the same time in this process.")
    backlog_s: Seconds = Field(
        2,
        description="How long what was admitted may wait for this process, in seconds; beyond it asks are refused with "
        "`overloaded` until the wait is half as long.",
    )
    running_per_user: PerUser = of_a_user(
        "running_per_user", "Exchanges of one user that may run at the same time in this process"
    )
    waiting_per_user: PerUser = of_a_user(
        "waiting_per_user", "Exchanges of one user that may wait for a person before one more may begin"
    )
    asks_per_minute: PerUser = of_a_user("asks_per_minute", "Asks of one user in any minute, in this process")
    max_sockets: Count = Field(
        10_000, description="WebSockets and streams (SSE) that may be open at the same time in this process."
    )
    sockets_per_user: PerUser = of_a_user(
        "sockets_per_user", "Those of one user that may be open at once in this process"
    )
    requests_per_user: PerUser = of_a_user(
        "requests_per_user", "REST calls of one user that are worked on at once in this process; more wait for a moment"
    )
    empty_sessions_per_user: PerUser = of_a_user(
        "empty_sessions_per_user", "Sessions of one user that may be open without a message"
    )
    attachment_bytes: Bytes = Field(10_485_760, description="Largest file that may be attached, in bytes.")
    attachment_text_chars: Annotated[int, Field(ge=1_000, le=1_000_000)] = Field(
        400_000, description="Most characters of text in an attached file, and in all that are attached to one ask."
    )
    attachment_pixels: Annotated[int, Field(ge=1, le=1_000_000_000)] = Field(
        50_000_000, description="Most pixels of an attached image."
    )
    attachments_per_ask: Annotated[int, Field(ge=1, le=100)] = Field(
        10, description="Files that may be attached to one ask."
    )
    attachment_request_bytes: Bytes = Field(
        20_971_520,
        description="Most bytes of attached images that a model is shown at once, the last ones first; it is told the "
        "names of the others. Each exchange that runs holds so many in memory, and a third more.",
    )
    attachments_per_user_bytes: Annotated[int, Field(ge=1024, le=2**50)] = Field(
        1_073_741_824,
        description="Most bytes of all attachments of one user. A document counts as its text where that is more.",
    )
    attachment_unsent_h: Annotated[float, Field(gt=0, le=8_760)] = Field(
        24, description="How long an attachment that was not sent is kept, in hours."
    )
    uploads_per_user: PerUser = of_a_user(
        "uploads_per_user", "Attachments of one user that may be uploaded at once in this process; more wait a moment"
    )
    uploads_per_minute: PerUser = of_a_user(
        "uploads_per_minute", "Attachments of one user that may be uploaded in any minute, in this process"
    )
    unauthenticated_sockets: Count = Field(
        1_000,
        description="WebSockets whose user isn't known yet, and connections that have asked for nothing yet, that may "
        "be open at the same time in this process; of the latter the oldest make room.",
    )
    search_bytes: Annotated[int, Field(ge=1_048_576, le=2**40)] = Field(
        268_435_456,
        description="Memory for the records of applications that are searched by words or by vectors, in bytes, in "
        "this process; what does not fit is read from the database at each search.",
    )
    model_call_bytes: Bytes = Field(
        8_388_608,
        description="Most that one call of a model may say, in bytes of its text, thoughts and tools' arguments; then "
        "the exchange fails, and keeps what was said. All models of an exchange may say four times that from one pause "
        "to the next.",
    )
    model_timeout_s: Seconds = Field(
        120,
        description="How long a graph may be silent while no tool runs, in seconds, unless its catalog entry says "
        "otherwise; then the exchange fails.",
    )
    tool_timeout_s: Seconds = Field(
        300,
        description="How long a tool may run without a sign of life, in seconds, unless the agent's catalog entry says "
        "otherwise; then the exchange fails.",
    )
    background_per_user: Count = Field(
        4, description="Tools of one user that may run in the background at the same time in this process."
    )
    background_timeout_s: RunSeconds = Field(
        900, description="How long a tool may run in the background, in seconds; then it is cut."
    )
    run_timeout_s: RunSeconds = Field(
        3600,
        description="How long an exchange may run, in seconds, without the time in which it waits for a person, unless "
        "the agent's catalog entry says otherwise; then it fails.",
    )
    steps: Count = Field(
        1_000,
        description="Most steps of a graph from its start, or from a pause, to its end; then the exchange fails. A "
        "catalog entry and an author's `recursion_limit` can only say less.",
    )
    send_timeout_s: Seconds = Field(
        10, description="How long a client may take to read what is sent, in seconds; then it is disconnected."
    )
    authenticate_timeout_s: Seconds = Field(
        5, description="How long a connection may wait with its first `authenticate` frame, in seconds."
    )
    history_exchanges: Annotated[int, Field(ge=0, le=10_000)] = Field(
        20, description="Past exchanges that an agent is given, unless its catalog entry says otherwise; 0 is none."
    )
    human_timeout_s: Annotated[float, Field(gt=0, le=31_536_000)] | None = Field(
        604_800, description="How long an exchange waits for a person, in seconds; `null` is for good."
    )
    titles_timeout_s: Seconds = Field(20, description="How long a model may take to name a session, in seconds.")

    @model_validator(mode="after")
    def _a_frame_holds_a_message(self) -> Self:
        if self.frame_bytes < self.message_bytes + self.runtime_context_bytes:
            raise rule_broken("must be at least limits.message_bytes + limits.runtime_context_bytes", "frame_bytes")
        return self
