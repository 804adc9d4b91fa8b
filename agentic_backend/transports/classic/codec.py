"""Classic: the codec of older clients, which know messages by rank, exchanges by their own ids, and one question.

See docs/protocol.md, "The classic form".
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_core import to_json

from agentic_backend.errors import BadFrame, Blocked
from agentic_backend.protocol.events import (
    AwaitingHuman,
    Delta,
    Event,
    ExchangeError,
    ExchangeEvent,
    Final,
    FrameRefused,
    Reset,
    Started,
    Stream,
)
from agentic_backend.protocol.frames import ClientFrame, FollowSessions, Unfollow, UnfollowSessions, validate_frame
from agentic_backend.protocol.messages import ChatMessage, MessageMetadata, Role, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.transports.classic.decisions import classic_request, decisions_of
from agentic_backend.transports.classic.unfinished_texts import Piece, UnfinishedTexts

# The exchanges that one client may follow at once, or have named in a frame that came to nothing.
_MOST_TOLD = 1_000
# What older clients put into each frame, and what only an ask needs.
_OF_ASKS = frozenset({"agent_id", "runtime_context", "internal_profile_id", "internal_capability"})
_OWN_ANSWERS = frozenset({"decisions", "answers"})


class _Asked(NamedTuple):
    """What a person is asked, so that an answer may leave out what it answers, and can be given anew if refused."""

    checkpoint_id: str
    frame: str


class _Told:
    """What the client was told of an exchange that has not ended."""

    def __init__(self, exchange_id: str) -> None:
        self.session_id: str | None = None
        self.name = exchange_id
        """The exchange's id on the wire."""
        self.asked: _Asked | None = None
        self.texts = UnfinishedTexts()


class Classic:
    """One per socket: it knows what its client shows."""

    name = "classic"
    text_interval_s = 0.1
    knows_clients_ids = True

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        """By the server's ids of the exchanges, the latest last; at most _MOST_TOLD."""

    def read(self, raw: dict[str, Any]) -> ClientFrame:
        """Older clients send every field they know, with null for a missing value: drop the nulls of fields that the
        frame does not have too.
        """
        raw = {name: value for name, value in raw.items() if value is not None}
        if raw.get("type") == "human_resume":
            raw = self._with_decisions(raw)
        frame = validate_frame(raw)
        if isinstance(frame, FollowSessions | UnfollowSessions):
            # Nothing of it would be shown.
            raise BadFrame("type: unknown type of frame")
        if isinstance(frame, Unfollow):
            self._told = {key: told for key, told in self._told.items() if told.session_id != frame.session_id}
        return frame

    def _with_decisions(self, raw: dict[str, Any]) -> dict[str, Any]:
        raw = {name: value for name, value in raw.items() if name not in _OF_ASKS}
        payload, exchange_id = raw.get("payload"), raw.get("exchange_id")
        if not isinstance(payload, dict) or _OWN_ANSWERS & payload.keys():
            return raw
        asked = self._asked_in(exchange_id)
        return {**raw, "payload": decisions_of(payload, asked.checkpoint_id if asked is not None else None)}

    def name_exchange(self, exchange_id: str, client_exchange_id: str) -> None:
        self._told_of(exchange_id).name = client_exchange_id

    def _told_of(self, exchange_id: str) -> _Told:
        told = self._told.pop(exchange_id, None) or _Told(exchange_id)
        self._told[exchange_id] = told
        if len(self._told) > _MOST_TOLD:
            del self._told[next(iter(self._told))]
        return told

    def _asked_in(self, name: Any) -> _Asked | None:
        """What the client was asked last in the exchange with this id on the wire."""
        return next((told.asked for told in self._told.values() if told.name == name and told.asked is not None), None)

    def render(self, event: Event) -> Sequence[str]:
        if isinstance(event, FrameRefused):
            return self._refused(event)
        if not isinstance(event, ExchangeEvent):
            return ()
        told = self._told_of(event.exchange_id)
        told.session_id = event.session_id
        match event:
            case Started():
                told.name = event.client_exchange_id or told.name
                told.texts.begin_anew()
            case Delta():
                return _pieces(told, told.texts.add(event.block, event.channel, event.text))
            case Stream():
                return self._stored(told, event.message, event.block)
            case Reset():
                return self._anew(told, event)
            case AwaitingHuman():
                return (self._asks(told, event),)
            case Final():
                del self._told[event.exchange_id]
                messages = [_renamed(message, told.name) for message in event.messages]
                return (_frame(event, told.name, messages=messages),)
            case ExchangeError():
                return (_frame(event, told.name),)
        return ()

    def _stored(self, told: _Told, message: ChatMessage, block: int | None) -> list[str]:
        told.asked = None
        row = _stream(told, message)
        return [row, *_pieces(told, told.texts.store(message.rank, block))]

    def _anew(self, told: _Told, event: Reset) -> list[str]:
        """The client can't forget what it shows: give it the stored messages that it lacks, and what is new of the
        texts."""
        told.texts.begin_anew()
        frames: list[str] = []
        for message in event.messages:
            if not told.texts.has(message.rank):
                frames.append(_stream(told, message))
            told.texts.store(message.rank, None)
        return [*frames, *_pieces(told, told.texts.replace(event.partial))]

    def _asks(self, told: _Told, event: AwaitingHuman) -> str:
        asks = classic_request(event.payload)
        payload = event.payload.model_dump(mode="json") | asks
        frame = to_json(
            {"type": event.type, "session_id": event.session_id, "exchange_id": told.name, "payload": payload}
        ).decode()
        told.asked = _Asked(asks["checkpoint_id"], frame)
        return frame

    def _refused(self, event: FrameRefused) -> list[str]:
        """Older clients put a question away once it is answered: where the answer was refused, they are asked again."""
        asked = self._asked_in(event.exchange_id) if event.refused == "human_resume" else None
        again = asked is not None and (event.retryable or event.code in (BadFrame.code, Blocked.code))
        return [event.encode(), *([asked.frame] if asked is not None and again else [])]


def _pieces(told: _Told, piece: Piece | None) -> list[str]:
    """The frame of new text, if there is some."""
    if piece is None:
        return []
    message = ChatMessage(
        session_id=told.session_id,
        exchange_id=told.name,
        rank=piece.rank,
        timestamp=utc_now(),
        role=Role.ASSISTANT,
        channel=piece.channel,
        parts=[TextPart(text=piece.text)],
        metadata=MessageMetadata(extras={"streaming_delta": True}),
    )
    return [_stream(told, message)]


def _stream(told: _Told, message: ChatMessage) -> str:
    event = Stream(session_id=told.session_id, exchange_id=told.name, seq=0, message=_renamed(message, told.name))
    return _frame(event, told.name)


def _renamed(message: ChatMessage, exchange_id: str) -> ChatMessage:
    return message if message.exchange_id == exchange_id else message.model_copy(update={"exchange_id": exchange_id})


def _frame(event: ExchangeEvent, exchange_id: str, **changes: Any) -> str:
    renamed = event.model_copy(update={"exchange_id": exchange_id, **changes})
    return renamed.model_dump_json(exclude={"seq", "block"})
