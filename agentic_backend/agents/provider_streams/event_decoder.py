"""EventDecoder: server-sent events as providers send them, in place of the decoder of a provider's package.

The packages decode line by line and field by field. Providers send events of one form: perhaps a line with its name, a
line of data, and an empty line. Such events are cut out at once; from the first of another form on, the package's own
decoder reads the stream.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from pydantic_core import from_json

from agentic_backend.agents.provider_streams.silence import Silence

# The longest unfinished event that is kept here, in bytes: it is searched again with each packet.
_LONGEST_REST = 64 * 1024


class Event:
    """What the packages read of an event."""

    __slots__ = ("data", "event")

    def __init__(self, event: str | None, data: str) -> None:
        self.event = event
        self.data = data

    def json(self) -> Any:
        """The data as `json.loads` reads it, and with its errors."""
        try:
            return from_json(self.data)
        except ValueError:
            return json.loads(self.data)


class EventDecoder:
    """Reads one stream. A stream to synchronous callers is left to the package's own decoder."""

    def __init__(self, own: Any, silence: Silence) -> None:
        self._own = own
        """The package's decoder."""
        self._silence = silence
        """How long the stream may bring no event."""

    def iter_bytes(self, packets: Iterator[bytes]) -> Iterator[Any]:
        """The events of a stream to a synchronous caller."""
        events: Iterator[Any] = self._own.iter_bytes(packets)
        return events

    async def aiter_bytes(self, packets: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        """The events of a stream. Raises what the silence raises."""
        rest, packets = b"", self._silence.bounded(packets)
        async for packet in packets:
            *blocks, rest = (rest + packet).split(b"\n\n")
            for place, block in enumerate(blocks):
                event = _event(block)
                if event is None:
                    rest = b"\n\n".join([*blocks[place:], rest])
                    break
                if event is not _COMMENT:
                    yield event
                    self._silence.ends()
            else:
                if b"\r" not in rest and len(rest) <= _LONGEST_REST:
                    continue
            break
        async for event in self._own.aiter_bytes(_joined(rest, packets)):
            yield event
            self._silence.ends()


async def _joined(first: bytes, packets: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for packet in packets:
        yield packet


_COMMENT = Event(None, "")


def _event(block: bytes) -> Event | None:
    """What the lines of `block` say; None if only the package's decoder can tell."""
    if b"\r" in block:
        return None
    try:
        first, *others = block.decode().split("\n")
    except UnicodeDecodeError:
        return None
    if not others:
        return Event(None, first[6:]) if first.startswith("data: ") else _COMMENT if first.startswith(":") else None
    if len(others) == 1 and first.startswith("event: ") and others[0].startswith("data: "):
        return Event(first[7:] or None, others[0][6:])
    return None
