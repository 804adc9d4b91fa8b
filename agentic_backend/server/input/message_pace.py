"""Limits the rate at which messages are read from sockets.

Every message, even a refused one, costs time on the event loop that all clients share. A client that sends too much is
not refused, but read more slowly.
"""

_MESSAGE_S = 1 / 500
_BYTE_S = 1 / (4 * 1024 * 1024)
_BURST_S = 1.0
LARGE_BYTES = 65_536
_LARGE_BYTE_S = 1 / (10 * 1024 * 1024)


class MessagePace:
    """A leaky bucket for one socket: 500 messages or 4 MiB a second, with a burst of one second's worth."""

    def __init__(self) -> None:
        self._paid_until = 0.0
        """The time at which the bucket is empty."""

    def count(self, size: int, now: float) -> None:
        self._paid_until = max(self._paid_until, now) + _MESSAGE_S + size * _BYTE_S

    def wait_s(self, now: float) -> float:
        """The delay before the next message, in seconds."""
        return max(0.0, self._paid_until - now - _BURST_S)


class LargeMessages:
    """Limits the large messages of all sockets to 10 MiB a second, because decoding one may take 50 ms."""

    def __init__(self) -> None:
        self._next_at = 0.0
        """The time from which the next large message may be decoded."""

    def turn_in_s(self, size: int, now: float) -> float:
        """Reserve a turn for a message of `size` bytes; return the delay until then, in seconds."""
        if size <= LARGE_BYTES:
            return 0.0
        at = max(now, self._next_at)
        self._next_at = at + size * _LARGE_BYTE_S
        return at - now
