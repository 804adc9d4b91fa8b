"""The Python client: ask, read and follow answers, approve, stop; with reconnection. See docs/clients.md.

It needs pydantic, websockets and httpx, and nothing of the server.
"""

from agentic_backend.client.chat import Chat, connect
from agentic_backend.client.decisions import Answer, answer, approve, edit, reject
from agentic_backend.client.errors import (
    ChatError,
    Closed,
    NotAllowed,
    NotFound,
    PersonNeeded,
    Refused,
    TryLater,
    TurnedAway,
    Unanswered,
    Unreachable,
    Unreadable,
)
from agentic_backend.client.exchange import Exchange
from agentic_backend.client.rest import Rest
from agentic_backend.client.session_feed import SessionFeed
from agentic_backend.client.session_list import SessionList
from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Delta,
    Event,
    ExchangeError,
    Final,
    FollowingSessions,
    HumanRequest,
    Idle,
    Reset,
    SessionChanged,
    SessionDeleted,
    Started,
    Stream,
)
from agentic_backend.protocol.messages import ChatMessage, Session

__all__ = [
    "Activity",
    "Answer",
    "AwaitingHuman",
    "Chat",
    "ChatError",
    "ChatMessage",
    "Closed",
    "Delta",
    "Event",
    "Exchange",
    "ExchangeError",
    "Final",
    "FollowingSessions",
    "HumanRequest",
    "Idle",
    "NotAllowed",
    "NotFound",
    "PersonNeeded",
    "Refused",
    "Reset",
    "Rest",
    "Session",
    "SessionChanged",
    "SessionDeleted",
    "SessionFeed",
    "SessionList",
    "Started",
    "Stream",
    "TryLater",
    "TurnedAway",
    "Unanswered",
    "Unreachable",
    "Unreadable",
    "answer",
    "approve",
    "connect",
    "edit",
    "reject",
]
