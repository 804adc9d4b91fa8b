"""A message and a session of the protocol, each with its exact JSON in the contract."""

from datetime import UTC, datetime

from agentic_backend.protocol.messages import Channel, ChatMessage, Role, Session
from agentic_backend.protocol.parts import TextPart

AT = datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
AT_TEXT = "2026-02-03T04:05:06.000007Z"

MESSAGE = ChatMessage(
    session_id="s",
    exchange_id="e",
    rank=0,
    timestamp=AT,
    role=Role.USER,
    channel=Channel.FINAL,
    parts=[TextPart(text="hi")],
)
MESSAGE_SHAPE = {
    "session_id": "s",
    "exchange_id": "e",
    "rank": 0,
    "timestamp": AT_TEXT,
    "role": "user",
    "channel": "final",
    "parts": [{"type": "text", "text": "hi"}],
    "metadata": {"sources": [], "extras": {}},
}

SESSION = Session(id="s", user_id="u", agent_id="a", title="t", created_at=AT, updated_at=AT)
SESSION_SHAPE = {
    "id": "s",
    "user_id": "u",
    "agent_id": "a",
    "title": "t",
    "state": "active",
    "pinned": False,
    "archived": False,
    "created_at": AT_TEXT,
    "updated_at": AT_TEXT,
    "next_rank": 0,
    "message_count": 0,
    "chat_profile": "default",
}
