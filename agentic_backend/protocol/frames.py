"""Client frames: what a client may send over the WebSocket, strict to the last field.

`validate_frame` is the only way in. Its errors name the field and what was expected, never the value.
"""

import json
from typing import Annotated, Any, Literal

import orjson
from pydantic import AliasChoices, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.parts import Value

Token = Annotated[str, Field(min_length=1, max_length=16_384)]
LONGEST_ID = 128
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
_FIELDS_AT_MOST = 32
_TOO_MANY_FIELDS = "frame: more fields than any frame has"


class Frame(Value):
    """A client frame. Values are not coerced: a number is no text, and a text no number."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, raw: Any) -> Any:
        # pydantic makes an error of each unknown field, at 2 µs; a frame has room for hundreds of thousands.
        if isinstance(raw, dict) and len(raw) > _FIELDS_AT_MOST:
            raise ValueError(_TOO_MANY_FIELDS)
        return raw


class Authenticate(Frame):
    type: Literal["authenticate"] = "authenticate"
    access_token: Token = Field(repr=False)
    refresh_token: Token | None = Field(default=None, repr=False)


class Ask(Frame):
    """One ask. `runtime_context` is what the client tells the agent; it is never identity."""

    type: Literal["ask"] = "ask"
    message: str = Field(min_length=1, repr=False)
    session_id: Id | None = None
    agent_id: Id | None = Field(default=None, validation_alias=AliasChoices("agent_id", "agent_name"))
    client_exchange_id: Id | None = None
    mode: Literal["chat", "query"] = "chat"
    chat_profile: Id = "default"
    runtime_context: dict[str, Any] = Field(default_factory=dict, repr=False)
    access_token: Token | None = Field(default=None, repr=False)
    refresh_token: Token | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _query_has_no_session(self) -> "Ask":
        if self.mode == "query" and self.session_id is not None:
            raise ValueError("session_id: a query is stateless and names no session")
        return self


class Decision(Frame):
    """What a person decides about one tool call: `message` goes with a rejection, `args` with an edit."""

    call_id: Id
    args_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    action: Literal["approve", "reject", "edit"]
    message: str | None = Field(default=None, max_length=4_000, repr=False)
    args: dict[str, Any] | None = Field(default=None, repr=False)


class HumanDecisions(Frame):
    """`answers` answers questions, by interrupt id."""

    decisions: list[Decision] = Field(default_factory=list, max_length=256)
    answers: dict[str, Any] = Field(default_factory=dict, max_length=256, repr=False)


class HumanResume(Frame):
    type: Literal["human_resume"] = "human_resume"
    session_id: Id
    exchange_id: Id
    payload: HumanDecisions


class _Target(Frame):
    """Names a session, one exchange of it, or (in query mode) an exchange alone."""

    session_id: Id | None = None
    exchange_id: Id | None = None

    @model_validator(mode="after")
    def _names_something(self) -> "_Target":
        if self.session_id is None and self.exchange_id is None:
            raise ValueError("session_id: needed where no exchange_id is given")
        return self


class Stop(_Target):
    type: Literal["stop"] = "stop"


class Follow(_Target):
    type: Literal["follow"] = "follow"
    after_seq: int = Field(default=0, ge=0)


class Unfollow(Frame):
    type: Literal["unfollow"] = "unfollow"
    session_id: Id


class Ping(Frame):
    type: Literal["ping"] = "ping"


ClientFrame = Annotated[
    Authenticate | Ask | HumanResume | Stop | Follow | Unfollow | Ping,
    Field(discriminator="type"),
]
_FRAMES: TypeAdapter[ClientFrame] = TypeAdapter(ClientFrame)


def parse_frame(data: str | bytes) -> ClientFrame:
    """Parse one frame. Raises BadFrame, which names the field."""
    return validate_frame(decode_object(data))


def validate_frame(raw: dict[str, Any]) -> ClientFrame:
    """The frame in a JSON object; one without `type` is an ask. Raises BadFrame, which names the field."""
    if len(raw) > _FIELDS_AT_MOST:
        raise BadFrame(_TOO_MANY_FIELDS)
    try:
        return _FRAMES.validate_python({"type": "ask"} | raw)
    except ValidationError as error:
        raise BadFrame(describe(error)) from None


def decode_object(data: str | bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises BadFrame where it is anything else."""
    try:
        raw = orjson.loads(data)
    except (orjson.JSONDecodeError, RecursionError):
        raise BadFrame("The frame is not JSON.") from None
    if not isinstance(raw, dict):
        raise BadFrame("The frame is not a JSON object.")
    return raw


def describe(error: ValidationError) -> str:
    """The first problem of `error` in words, led by the field's name; foreign values are left out."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    kind, location = problem["type"], problem["loc"]
    if kind == "union_tag_invalid":
        return "type: unknown type of frame"
    if kind == "union_tag_not_found":
        return "type: expected a text"
    if kind == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    # The first place of a location is the frame's type, which the discriminator put there.
    field = ".".join(str(place) for place in location[1:]) or "frame"
    if kind == "extra_forbidden":
        return f"{json.dumps(field[:100])[1:-1]}: unknown field"
    return f"{field}: {problem['msg']}"
