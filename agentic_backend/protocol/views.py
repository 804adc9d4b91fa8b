"""The answers of the REST calls about agents and sessions."""

from typing import Literal

from pydantic import Field

from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, Session, SessionState, Timestamp
from agentic_backend.protocol.parts import Value, absent


class AgentView(Value):
    """An agent that can be asked. `starters` are questions to begin with, and the `default` one needs no name.

    `icon` is its mark: an emoji, or at most three letters.
    """

    id: str = Field(examples=["assistant"])
    name: str = Field(examples=["Assistant"])
    icon: str | None = absent()
    description: str
    tags: list[str]
    starters: list[str]
    tools: list[str]
    default: bool


class ChatProfileView(Value):
    """A chat profile that a client may name. An agent's sessions have the agent's own unless one is named."""

    name: str = Field(examples=["default"])
    description: str = Field(examples=["For most conversations."])
    default: bool


class AgentsView(Value):
    """The agents that the caller may use, and the chat profiles that may be named.

    `reload_problems` say what kept the latest reload from being served, each with its place, and only to developers and
    admins.
    """

    agents: list[AgentView]
    chat_profiles: list[ChatProfileView]
    reload_problems: list[str] | None = absent()


class ListedSession(Session):
    """A session in a list."""

    status: ExchangeStatus | None = absent()
    """Of its active exchange: `running` or `awaiting_human`; absent without one."""


class SessionsView(Value):
    """A page of sessions. `next_cursor` is for the next page, and absent on the last one."""

    sessions: list[ListedSession]
    next_cursor: str | None = absent()


class BranchesView(Value):
    """All sessions with one root, the root first."""

    branches: list[Session]


class MessagesView(Value):
    """Messages by rank. If the last one's is below `next_rank` - 1, more follow it."""

    messages: list[ChatMessage]
    next_rank: int


class CompletedView(Value):
    """A session that is completed."""

    id: str
    state: SessionState = Field(examples=["completed"])
    ended_at: Timestamp | None


class CancelledView(Value):
    """Whether anything was stopped."""

    cancelled: bool


class FeedbackView(Value):
    """What the user says of an answer."""

    rank: int
    """The rank of the answer."""
    exchange_id: str
    """The exchange of the answer."""
    rating: Literal["up", "down"]
    comment: str = Field(examples=["The second source is out of date."])
    """In words; empty where nothing was said."""
    at: Timestamp
    """When it was said (RFC 3339, UTC)."""


class SessionFeedbackView(Value):
    """What the user says of a session's answers, by rank."""

    feedback: list[FeedbackView]


class ShareView(Value):
    """A link by which others may read a session."""

    id: str = Field(examples=["9f86d081884c7d65"])
    created_at: Timestamp
    expires_at: Timestamp
    """When it closes by itself (RFC 3339, UTC)."""
    up_to_rank: int
    """It shows the messages below this rank."""


class CreatedShareView(ShareView):
    """A new link. Nobody is told its secret again."""

    secret: str = Field(examples=["Zk1h3uXr0TqgW8m5"])
    path: str = Field(examples=["/#share/Zk1h3uXr0TqgW8m5"])
    """Where the chat page of this server shows it."""


class SharesView(Value):
    """The open links to a session, the last first."""

    shares: list[ShareView]


class SharedAgentView(Value):
    """An agent that has answered in a shared session, which its reader need not be allowed to ask."""

    id: str = Field(examples=["assistant"])
    name: str = Field(examples=["Assistant"])
    icon: str | None = absent()


class SharedSessionView(Value):
    """A page of a session that somebody has shared; its messages have no `session_id`."""

    title: str = Field(examples=["Weather in Bern"])
    agent_id: str
    agent_name: str = Field(examples=["Assistant"])
    agents: list[SharedAgentView]
    """That agent, and those that these messages name."""
    shared_at: Timestamp
    expires_at: Timestamp
    messages: list[ChatMessage]
    next_after_rank: int | None = absent()
    """The `after_rank` of the next page, absent on the last one."""


class AttachmentView(Value):
    """A file that may be attached to an ask, or has been."""

    id: str = Field(examples=["a_1"])
    """Names the attachment in an ask."""
    name: str = Field(examples=["notes.txt"])
    """The file's name, without a path."""
    mime: str = Field(examples=["text/plain"])
    """The media type, by its content."""
    size: int = Field(examples=[23])
    """In bytes."""
    sha256: str = Field(examples=["8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"])
    """Of its content, in hex."""
    created_at: Timestamp
    """When it was uploaded."""
    session_id: str | None = absent()
    """The session in which it was sent; of a branch the one that all its branches come from."""
    text_chars: int | None = absent()
    """How many characters of text models read of it."""
