"""The frames of the messages between workers. All run the same version, so no frame tells it.

Control: topic, sender, number, ControlMessage; without the last one the number is that of the last message.
Events: topic, `after`, which is the seq of the event before, an empty frame, then the events in order; without
events it is the seq of the last one. Events that are longer together than PIECE_BYTES come as a line each, cut into
several messages: topic, `after`, the piece's number and how many there are, the piece. So what waits for a worker has a
bound in bytes, though ZeroMQ counts messages only.
"""

from collections.abc import Iterator, Sequence

from agentic_backend.protocol.events import ExchangeEvent

CONTROL = b"c"
PIECE_BYTES = 8_192
_EVENTS, _END = b"e", b"\0"
_WHOLE, _OF = b"", b"/"
# JSON escapes it.
_LINE_END = b"\n"


def control_frames(sender: str, number: int, message: bytes) -> list[bytes]:
    return [CONTROL, sender.encode(), b"%d" % number, message]


def event_messages(exchange_id: str, after: int, events: Sequence[ExchangeEvent]) -> Iterator[list[bytes]]:
    """The frames of the messages that carry these events."""
    head = [topic_of(exchange_id), b"%d" % after]
    encoded = [event.encode().encode() for event in events]
    if sum(map(len, encoded)) <= PIECE_BYTES:
        yield [*head, _WHOLE, *encoded]
        return
    lines = _LINE_END.join(encoded)
    del encoded
    count = -(-len(lines) // PIECE_BYTES)
    for number in range(count):
        piece = lines[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
        yield [*head, b"%d%b%d" % (number, _OF, count), piece]


class ReceivedEvents:
    """Puts together the events of one exchange that come in pieces."""

    def __init__(self) -> None:
        self._of: tuple[bytes, int] | None = None
        """The `after` and the count of the pieces that are here."""
        self._pieces: list[bytes] = []

    def take(self, frames: Sequence[bytes]) -> Sequence[bytes] | None:
        """The encoded events of the message, or of the pieces that it completes; None as long as pieces are missing.

        What misses a piece is dropped; later messages show that it is missing.
        """
        after, place = frames[1], frames[2]
        if place == _WHOLE:
            self._pieces = []
            return frames[3:]
        number, count = map(int, place.split(_OF))
        if number == 0:
            self._of, self._pieces = (after, count), []
        if self._of != (after, count) or number != len(self._pieces):
            self._pieces = []
            return None
        self._pieces.append(frames[3])
        if len(self._pieces) < count:
            return None
        lines, self._pieces = b"".join(self._pieces), []
        return lines.split(_LINE_END)


def topic_of(exchange_id: str) -> bytes:
    """The end mark keeps a topic from being the beginning of another one, which would be subscribed to with it."""
    return _EVENTS + exchange_id.encode() + _END


def exchange_of(topic: bytes) -> str | None:
    """The exchange's id; None for the control topic."""
    return topic[1:-1].decode(errors="replace") if topic.startswith(_EVENTS) else None
