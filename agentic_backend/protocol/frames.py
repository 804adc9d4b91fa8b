"""Client frames: the messages that clients may send over the WebSocket, strictly validated.

Only `validate_frame` accepts frames. Its errors name the field and the expected value, never the given one.
"""

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.parts import Value
from agentic_backend.protocol.scopes import ScopeName
from agentic_backend.protocol.seq import HIGHEST_SEQ

LONGEST_TOKEN = 16_384
Token = Annotated[str, Field(min_length=1, max_length=LONGEST_TOKEN)]
LONGEST_ID = 128
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
Scope = dict[ScopeName, Id]
"""Whose settings apply to a new session, or to a query: an id by the kind of scope."""
_FIELDS_AT_MOST = 32
_TOO_MANY_FIELDS = "frame: more fields than any frame has"


class Frame(Value):
    """A client frame. Values are not coerced: a number is no text, and a text no number.

    An optional key may also be null, which means the same as an absent one.
    """

    model_config = ConfigDict(strict=True)

    _may_be_absent: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        optional = {name: field for name, field in cls.model_fields.items() if not field.is_required()}
        aliases = [field.validation_alias for field in optional.values()]
        names = {str(name) for alias in aliases if isinstance(alias, AliasChoices) for name in alias.choices}
        names |= {alias for alias in aliases if isinstance(alias, str)}
        cls._may_be_absent = frozenset(names | optional.keys())

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        # pydantic needs 2 µs for the error of each unknown field, and a frame has room for hundreds of thousands.
        if len(raw) > _FIELDS_AT_MOST:
            raise ValueError(_TOO_MANY_FIELDS)
        return {name: value for name, value in raw.items() if value is not None or name not in cls._may_be_absent}


class Authenticate(Frame):
    type: Literal["authenticate"] = "authenticate"
    access_token: Token = Field(repr=False)
    refresh_token: Token | None = Field(default=None, repr=False)


class Ask(Frame):
    """One ask. `runtime_context` is the client's data for the agent; it never identifies the user.

    `attachments` must be empty: the server stores none.
    """

    type: Literal["ask"] = "ask"
    message: str = Field(min_length=1, repr=False)
    session_id: Id | None = None
    agent_id: Id | None = Field(default=None, validation_alias=AliasChoices("agent_id", "agent_name"))
    client_exchange_id: Id | None = None
    attachments: list[Id] = Field(default_factory=list, max_length=0)
    mode: Literal["chat", "query"] = "chat"
    chat_profile: Id | None = None
    scope: Scope = Field(default_factory=dict)
    runtime_context: dict[str, Any] = Field(default_factory=dict, repr=False)
    access_token: Token | None = Field(default=None, repr=False)
    refresh_token: Token | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _query_has_no_session(self) -> "Ask":
        if self.mode == "query" and self.session_id is not None:
            raise ValueError("session_id: a query is stateless and names no session")
        return self


class Decision(Frame):
    """A person's decision about one tool call: `message` goes with a rejection, `args` with an edit."""

    call_id: Id
    args_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    action: Literal["approve", "reject", "edit"]
    message: str | None = Field(default=None, max_length=4_000, repr=False)
    args: dict[str, Any] | None = Field(default=None, repr=False)


class HumanDecisions(Frame):
    """Decisions about tool calls, and `answers` to questions by interrupt id."""

    decisions: list[Decision] = Field(default_factory=list, max_length=256)
    answers: dict[str, Any] = Field(default_factory=dict, max_length=256, repr=False)


class HumanResume(Frame):
    """A person's decisions. Its tokens replace those of the connection, as an ask's do."""

    type: Literal["human_resume"] = "human_resume"
    session_id: Id
    exchange_id: Id
    payload: HumanDecisions
    access_token: Token | None = Field(default=None, repr=False)
    refresh_token: Token | None = Field(default=None, repr=False)


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
    after_seq: int = Field(default=0, ge=0, le=HIGHEST_SEQ)


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


def validate_frame(raw: dict[str, Any]) -> ClientFrame:
    """The frame in a JSON object; one without `type` is an ask. Raises BadFrame, which names the field."""
    if len(raw) > _FIELDS_AT_MOST:
        raise BadFrame(_TOO_MANY_FIELDS)
    try:
        return _FRAMES.validate_python(raw if raw.get("type") is not None else {**raw, "type": "ask"})
    except ValidationError as error:
        # A location begins with the frame's type, from the discriminator.
        raise BadFrame(first_problem(error, "frame", skip=1)) from None


def first_problem(error: ValidationError, whole: str, *, skip: int = 0) -> str:
    """The first problem of `error` in words, after the field's name; without the client's values.

    `whole` is the name of the value as a whole; the first `skip` places of a location name no field.
    """
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    kind, location = problem["type"], problem["loc"]
    if kind == "union_tag_invalid":
        return "type: unknown type of frame"
    if kind == "union_tag_not_found":
        return "type: expected a text"
    field = ".".join(str(place) for place in location[skip:]) or whole
    if kind == "value_error":
        message = problem["msg"].removeprefix("Value error, ")
        # A rule of the whole value names the field itself.
        return f"{field}: {message}" if location[skip:] else message
    if kind == "extra_forbidden":
        return f"{json.dumps(field[:100])[1:-1]}: unknown field"
    return f"{field}: {problem['msg']}"
