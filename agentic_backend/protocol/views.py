"""The answers of the REST calls about agents and sessions."""

from agentic_backend.protocol.messages import ChatMessage, Session, SessionState, Timestamp
from agentic_backend.protocol.parts import Value, absent


class AgentView(Value):
    id: str
    name: str
    description: str
    tags: list[str]
    starters: list[str]
    tools: list[str]
    default: bool


class ChatProfileView(Value):
    """A chat profile that a client may name. An agent's sessions have the agent's own unless one is named."""

    name: str
    description: str
    default: bool


class AgentsView(Value):
    agents: list[AgentView]
    chat_profiles: list[ChatProfileView]


class SessionsView(Value):
    sessions: list[Session]
    next_cursor: str | None = absent()


class MessagesView(Value):
    messages: list[ChatMessage]
    next_rank: int


class CompletedView(Value):
    id: str
    state: SessionState
    ended_at: Timestamp | None


class CancelledView(Value):
    cancelled: bool
