"""The two codecs of a socket: Chat Protocol v2, and the classic protocol of older clients."""

from typing import Any, Protocol

from agentic_backend.protocol.events import (
    AwaitingHuman,
    Delta,
    Event,
    ExchangeError,
    Final,
    FrameRefused,
    Reset,
    Started,
    Stream,
)
from agentic_backend.protocol.frames import ClientFrame, validate_frame
from agentic_backend.protocol.messages import ChatMessage, MessageMetadata, Role, utc_now
from agentic_backend.protocol.parts import TextPart


class Codec(Protocol):
    name: str
    text_interval_s: float
    """The interval between two sends of text, in seconds."""

    def read(self, raw: dict[str, Any]) -> ClientFrame:
        """The client's frame. Raises BadFrame."""
        ...

    def render(self, event: Event) -> str | None:
        """The frame for `event`; None if this codec does not send it."""
        ...


class ChatV2:
    name = "chat.v2"
    text_interval_s = 0.05

    def read(self, raw: dict[str, Any]) -> ClientFrame:
        return validate_frame(raw)

    def render(self, event: Event) -> str | None:
        return event.encode()


class Classic:
    """One per socket: it counts the ranks of each exchange, because a delta names the future rank of its message.

    It assumes that concurrent messages complete in the order in which they began.
    """

    name = "classic"
    text_interval_s = 0.1

    def __init__(self) -> None:
        self._next_rank: dict[str, int] = {}
        self._open_blocks: dict[str, list[int]] = {}

    def read(self, raw: dict[str, Any]) -> ClientFrame:
        """Older clients send every field they know, with null for a missing value: drop the nulls of fields that the
        frame does not have too.
        """
        return validate_frame({name: value for name, value in raw.items() if value is not None})

    def render(self, event: Event) -> str | None:
        match event:
            case Started():
                self._next_rank[event.exchange_id] = 0
                self._open_blocks[event.exchange_id] = []
            case Reset():
                # Not sent, but later text gets the ranks after these messages.
                self._next_rank[event.exchange_id] = event.messages[-1].rank + 1 if event.messages else 0
                self._open_blocks[event.exchange_id] = [text.block for text in event.partial]
            case Delta():
                return _without_seq(self._as_stream(event))
            case Stream():
                self._complete(event)
                return _without_seq(event)
            case Final():
                self._next_rank.pop(event.exchange_id, None)
                self._open_blocks.pop(event.exchange_id, None)
                return _without_seq(event)
            case AwaitingHuman() | ExchangeError():
                return _without_seq(event)
            case FrameRefused():
                return event.encode()
        return None

    def _complete(self, event: Stream) -> None:
        self._next_rank[event.exchange_id] = event.message.rank + 1
        blocks = self._open_blocks.setdefault(event.exchange_id, [])
        if event.block in blocks:
            blocks.remove(event.block)

    def _as_stream(self, delta: Delta) -> Stream:
        blocks = self._open_blocks.setdefault(delta.exchange_id, [])
        if delta.block not in blocks:
            blocks.append(delta.block)
        rank = self._next_rank.get(delta.exchange_id, 0) + blocks.index(delta.block)
        message = ChatMessage(
            session_id=delta.session_id,
            exchange_id=delta.exchange_id,
            rank=rank,
            timestamp=utc_now(),
            role=Role.ASSISTANT,
            channel=delta.channel,
            parts=[TextPart(text=delta.text)],
            metadata=MessageMetadata(extras={"streaming_delta": True}),
        )
        return Stream(session_id=delta.session_id, exchange_id=delta.exchange_id, seq=delta.seq, message=message)


def _without_seq(event: Event) -> str:
    return event.model_dump_json(exclude={"seq", "block"})
