"""Client frames: the messages that clients may send over the WebSocket, strictly validated.

Only `validate_frame` accepts frames. Its errors name the field and the expected value, never the given one.
"""

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frame_rules import agent_and_session_of_an_ask, names_something
from agentic_backend.protocol.parts import Value
from agentic_backend.protocol.scopes import ScopeName
from agentic_backend.protocol.seq import HIGHEST_SEQ

LONGEST_TOKEN = 16_384
Token = Annotated[str, Field(min_length=1, max_length=LONGEST_TOKEN)]
LONGEST_ID = 128
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


def _integer(value: object) -> object:
    """JSON has one kind of numbers: to it, 5.0 is an integer too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


IN_ANY_NOTATION = BeforeValidator(_integer)
JsonInteger = Annotated[int, IN_ANY_NOTATION]
"""An integer of JSON, in any notation."""
MOST_ATTACHMENTS = 100
"""The number of attachments that any server takes with an ask; `GET /info` tells how many this one takes."""
MOST_PAST = 400
"""The number of earlier messages that a query may bring."""
Scope = dict[ScopeName, Id]
"""Whose settings apply to a new session, or to a query: an id by the kind of scope."""
TYPE_BY_DEFAULT = "ask"
"""The type of a frame that names none."""
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
    """Names the user, or renews the socket's token. No answer, unless the token is refused."""

    type: Literal["authenticate"] = "authenticate"
    access_token: Token = Field(repr=False)
    """A JWT of the server's realm."""
    refresh_token: Token | None = Field(default=None, repr=False)
    """Lets exchanges go on for longer than the access token lasts."""


class PastMessage(Frame):
    """A message before a query: the user's, or the agent's answer."""

    role: Literal["user", "assistant"]
    """Who has said it."""
    content: str = Field(min_length=1, repr=False)
    """What was said."""


class Ask(Frame):
    """One ask; it begins an exchange."""

    model_config = ConfigDict(json_schema_extra=agent_and_session_of_an_ask)

    type: Literal["ask"] = "ask"
    message: str = Field(min_length=1, repr=False)
    """What the user says."""
    session_id: Id | None = None
    """The session to ask in; absent: a new one is opened."""
    agent_id: Id | None = Field(default=None, validation_alias=AliasChoices("agent_id", "agent_name"))
    """The agent to ask; absent: the session's, or the server's default."""
    client_exchange_id: Id | None = None
    """The client's own id for the exchange: an ask that is sent again with it begins nothing more."""
    attachments: list[Id] = Field(default_factory=list, max_length=MOST_ATTACHMENTS)
    """The ids of files that the user has uploaded, and that belong to the message. A query has none."""
    mode: Literal["chat", "query"] = "chat"
    """`query` asks without a session: nothing is kept, and nothing remembered but the `history` beside it."""
    history: list[PastMessage] = Field(default_factory=list, max_length=MOST_PAST, repr=False)
    """What was said before a query, the oldest first. A session has its own."""
    chat_profile: Id | None = None
    """The chat profile of a new session, or of this one exchange in an earlier one."""
    scope: Scope = Field(default_factory=dict)
    """Whose settings apply to a new session, or to a query: an id by the kind of scope."""
    runtime_context: dict[str, Any] = Field(default_factory=dict, repr=False)
    """The client's data for the agent; it never identifies the user, and may hold no credential."""
    access_token: Token | None = Field(default=None, repr=False)
    """Renews the socket's token."""
    refresh_token: Token | None = Field(default=None, repr=False)
    """Goes with `access_token`."""

    @model_validator(mode="after")
    def _query_has_no_session(self) -> "Ask":
        if self.mode == "query" and self.session_id is not None:
            raise ValueError("session_id: a query is stateless and names no session")
        if self.mode == "query" and self.attachments:
            raise ValueError("attachments: a query keeps nothing, so it takes none")
        if self.mode != "query" and self.history:
            raise ValueError("history: a session has its own; only a query takes one")
        return self


class Decision(Frame):
    """A person's decision about one tool call."""

    call_id: Id
    """The call, as the request names it."""
    args_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """The hash of the arguments that the person saw, as the request has it."""
    action: Literal["approve", "reject", "edit"]
    """One of the request's `allowed` actions."""
    message: str | None = Field(default=None, max_length=4_000, repr=False)
    """What the model is told of a rejection."""
    args: dict[str, Any] | None = Field(default=None, repr=False)
    """The arguments of an edit."""


class HumanDecisions(Frame):
    """Decisions about some or all of what an exchange waits for."""

    decisions: list[Decision] = Field(default_factory=list, max_length=256)
    """Those about tool calls."""
    answers: dict[str, Any] = Field(default_factory=dict, max_length=256, repr=False)
    """The answers to questions, by interrupt id."""


class HumanResume(Frame):
    """A person's decisions. Its tokens replace those of the connection, as an ask's do."""

    type: Literal["human_resume"] = "human_resume"
    session_id: Id
    """The session of the exchange."""
    exchange_id: Id
    """The exchange that waits."""
    payload: HumanDecisions
    """What the person has decided."""
    access_token: Token | None = Field(default=None, repr=False)
    """Renews the socket's token."""
    refresh_token: Token | None = Field(default=None, repr=False)
    """Goes with `access_token`."""


class _Target(Frame):
    """Names a session, one exchange of it, or (in query mode) an exchange alone."""

    model_config = ConfigDict(json_schema_extra=names_something)

    session_id: Id | None = None
    """The session; absent where a query is meant."""
    exchange_id: Id | None = None
    """One exchange of it; absent: the one that runs."""

    @model_validator(mode="after")
    def _names_something(self) -> "_Target":
        if self.session_id is None and self.exchange_id is None:
            raise ValueError("session_id: needed where no exchange_id is given")
        return self


class Stop(_Target):
    """Stops what runs. The exchange's `final` follows; where nothing runs, `idle` answers."""

    type: Literal["stop"] = "stop"


class Follow(_Target):
    """Follows one exchange, or a session's running exchange and all later ones."""

    type: Literal["follow"] = "follow"
    after_seq: JsonInteger = Field(default=0, ge=0, le=HIGHEST_SEQ)
    """The seq of the last event that the client has of the exchange."""


class Unfollow(Frame):
    """Ends the following of a session. No answer."""

    type: Literal["unfollow"] = "unfollow"
    session_id: Id
    """The session."""


class FollowSessions(Frame):
    """Follows all sessions of the user: each change of one is told. `following_sessions` answers."""

    type: Literal["follow_sessions"] = "follow_sessions"


class UnfollowSessions(Frame):
    """Ends that. No answer."""

    type: Literal["unfollow_sessions"] = "unfollow_sessions"


class Ping(Frame):
    """Asks for a `pong`."""

    type: Literal["ping"] = "ping"


ClientFrame = Annotated[
    Authenticate | Ask | HumanResume | Stop | Follow | Unfollow | FollowSessions | UnfollowSessions | Ping,
    Field(discriminator="type"),
]
_FRAMES: TypeAdapter[ClientFrame] = TypeAdapter(ClientFrame)


def validate_frame(raw: dict[str, Any]) -> ClientFrame:
    """The frame in a JSON object; one without `type` is an ask. Raises BadFrame, which names the field."""
    if len(raw) > _FIELDS_AT_MOST:
        raise BadFrame(_TOO_MANY_FIELDS)
    try:
        return _FRAMES.validate_python(raw if raw.get("type") is not None else {**raw, "type": TYPE_BY_DEFAULT})
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
