"""The channels of the WebSocket: the two forms of the protocol, which a client chooses between by its subprotocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentic_backend.transports.socket.chatbot_controller import SUBPROTOCOL

_FRAMES = {
    "authenticate": "Authenticate",
    "ask": "Ask",
    "human_resume": "HumanResume",
    "stop": "Stop",
    "follow": "Follow",
    "unfollow": "Unfollow",
    "follow_sessions": "FollowSessions",
    "unfollow_sessions": "UnfollowSessions",
    "ping": "Ping",
}
_OF_EXCHANGE = {
    "started": "Started",
    "stream": "Stream",
    "delta": "Delta",
    "activity": "Activity",
    "awaiting_human": "AwaitingHuman",
    "exchange_error": "ExchangeError",
    "reset": "Reset",
    "final": "Final",
}
_OTHER_EVENTS = {
    "session": "SessionChanged",
    "session_deleted": "SessionDeleted",
    "following_sessions": "FollowingSessions",
    "idle": "Idle",
    "frame_refused": "FrameRefused",
    "pong": "Pong",
}
_LIST_FRAMES = ("follow_sessions", "unfollow_sessions")


@dataclass(frozen=True)
class Channel:
    """One form of the protocol. Frames and events have the names of their schemas, by the names of their messages."""

    name: str
    title: str
    description: str
    handshake: dict[str, Any]
    """The schema of the header that chooses this form."""
    frames: Mapping[str, str]
    events: Mapping[str, str]
    replies: Mapping[str, Sequence[str]]
    """The events that answer a frame; any frame may be refused."""
    prefix: str = ""
    """Of the operations' ids."""

    @property
    def all(self) -> dict[str, str]:
        return {**self.frames, **self.events}


_CHAT = Channel(
    name="chat",
    title="Chat Protocol v2",
    description=(
        f"A socket that offers the subprotocol `{SUBPROTOCOL}`. It carries any number of sessions and exchanges at "
        "once, and frames and events are JSON texts. Clients ignore events, fields and values that they don't know; "
        "the server refuses frames with unknown fields. A handshake is refused with 400 if it offers other "
        "subprotocols only, and with 403 if its `Origin` is not allowed. What is wrong with a token is told by a close "
        "code, because browsers can't read the status of a refused handshake."
    ),
    handshake={"Sec-WebSocket-Protocol": {"type": "string", "const": SUBPROTOCOL, "description": "This form."}},
    frames=_FRAMES,
    events={**_OF_EXCHANGE, **_OTHER_EVENTS},
    replies={
        "ask": tuple(_OF_EXCHANGE),
        "human_resume": tuple(_OF_EXCHANGE),
        "stop": ("final", "idle"),
        "follow": (*_OF_EXCHANGE, "idle"),
        "follow_sessions": ("following_sessions",),
        "ping": ("pong",),
    },
)
_CLASSIC = Channel(
    name="classic",
    title="The classic form, for older clients",
    description=(
        "Deprecated; newer clients use the channel `chat`. A socket that offers no subprotocol. Text that is being "
        "written comes as `stream` events whose message has `metadata.extras.streaming_delta: true`; the unflagged "
        "message of the same rank takes its place. An exchange has the id that its client gave it. Any field of a "
        "frame may be null."
    ),
    handshake={},
    frames={name: frame for name, frame in _FRAMES.items() if name not in _LIST_FRAMES}
    | {"human_resume": "ClassicHumanResume"},
    events={
        "stream": "ClassicStream",
        "awaiting_human": "ClassicAwaitingHuman",
        "exchange_error": "ClassicError",
        "final": "ClassicFinal",
        "frame_refused": "FrameRefused",
    },
    replies={
        "stop": ("final",),
        **dict.fromkeys(("ask", "human_resume", "follow"), ("stream", "awaiting_human", "exchange_error", "final")),
    },
    prefix="classic_",
)
CHANNELS = (_CHAT, _CLASSIC)
