"""HookContext: what a module is told about the exchange that it looks at. Frozen; a copy for each call.

`request`, the current message and `response` differ from call to call; all else is the same for all points of an
exchange. The session's messages are read only for modules that say that they read them.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn

from agentic_backend.protocol.messages import Channel, ChatMessage, SessionState
from agentic_backend.protocol.parts import Part, text_of

# Read-only copies of values of JSON: what modules are told, and one must not change for the next.
#
# They are still dicts, so that an author can send them on as JSON.


class ReadOnlyDict(dict[str, Any]):
    """Raises TypeError when it is changed; a copy of it can be."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("what a module is told can't be changed; change a deep copy")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        # A copy is a dict that can be changed, also in another process.
        return dict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: deepcopy(value, memo) for key, value in self.items()}


def read_only(value: Any) -> Any:
    """A copy of `value` with read-only dicts, and with tuples for lists."""
    if isinstance(value, Mapping):
        return ReadOnlyDict({key: read_only(each) for key, each in value.items()})
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return tuple(map(read_only, value)) if isinstance(value, list | tuple) else value


class Point(StrEnum):
    """Where a module is called. `BEFORE_AI`, `AFTER_AI` and `TOOL_RESULT` stand in the exchange's way."""

    SESSION_START = "session:start"
    SESSION_END = "session:end"
    ON_MESSAGE = "chat:on_message"
    BEFORE_AI = "chat:before_ai"
    AFTER_AI = "chat:after_ai"
    TOOL_RESULT = "chat:tool_result"


class MessagesNotRead(Exception):
    """A module has asked for the session's messages, and its class does not say that it reads them."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    id: str
    hook: Point
    at: datetime


@dataclass(frozen=True, slots=True)
class UserFacts:
    id: str
    name: str
    email: str | None = None
    roles: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ScopeOf:
    """One scope that the session is in. `settings` are those of the scope, such as an assignment's instructions.

    `path` is the place of an organisation in the tree of groups, such as `/schools/acme`; None for other scopes.
    """

    id: str
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", read_only(self.settings))


@dataclass(frozen=True, slots=True)
class ScopeFacts:
    group: ScopeOf | None = None
    class_: ScopeOf | None = None
    task: ScopeOf | None = None
    assignment: ScopeOf | None = None

    def copied(self) -> "ScopeFacts":
        scopes = (self.group, self.class_, self.task, self.assignment)
        return ScopeFacts(*(replace(scope) if scope is not None else None for scope in scopes))


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """The agent. `definition` is its catalog entry."""

    id: str
    name: str
    type: str
    tags: Sequence[str] = ()
    definition: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "definition", read_only(self.definition))


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """`id` is None in query mode."""

    id: str | None
    state: SessionState
    started_at: datetime
    message_count: int


@dataclass(frozen=True, slots=True)
class CurrentMessage:
    """The user's message, or what they say in decisions, as earlier modules have left it.

    Where an agent's text is looked at, the texts of the exchange's decisions follow those of the message.
    """

    exchange_id: str
    rank: int | None
    parts: Sequence[Part] = field(repr=False)

    @property
    def text(self) -> str:
        return text_of(list(self.parts))


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    current: CurrentMessage | None
    earlier: Sequence[ChatMessage] | None = field(default=None, repr=False)
    """None if they were not read for this module."""
    decided: Sequence[str] = field(default=(), repr=False)
    """What the person has said in decisions of those exchanges; empty if they were not read for this module."""

    @property
    def messages(self) -> Sequence[ChatMessage]:
        """The messages of the session's last exchanges, as people see them, by rank, without the current one.

        Raises MessagesNotRead unless the module's class says `reads_messages = True`.
        """
        if self.earlier is None:
            raise MessagesNotRead("a module that reads the session's messages says `reads_messages = True`")
        return self.earlier


@dataclass(frozen=True, slots=True)
class ResponseFacts:
    """A text of the agent, or the result of `tool`, as earlier modules have left it."""

    text: str = field(repr=False)
    channel: Channel = Channel.FINAL
    tool: str | None = None
    """The name by which the model has called it, which changes with what other servers and APIs offer."""
    tool_names: Sequence[str] = ()
    """All names that mean the tool, such as `server/tool`: who is for some tools compares with all of them."""
    is_title: bool = False
    """Whether it is no answer, but a title for the session."""


@dataclass(frozen=True, slots=True)
class HookContext:
    request: RequestFacts
    user: UserFacts
    scope: ScopeFacts
    tool: ToolFacts
    session: SessionFacts
    conversation: ConversationFacts
    response: ResponseFacts | None = None
