"""How fast messages are taken from sockets.

The work for a message falls on everybody, the refusal of a senseless one too. A client that sends too much is not
refused, but read more slowly.
"""

_MESSAGE_S = 1 / 500
_BYTE_S = 1 / (4 * 1024 * 1024)
_BURST_S = 1.0
LARGE_BYTES = 65_536
_LARGE_BYTE_S = 1 / (10 * 1024 * 1024)


class MessagePace:
    """A leaky bucket for one socket: 500 messages or 4 MiB a second, and as much as that at once."""

    def __init__(self) -> None:
        self._paid_until = 0.0

    def count(self, size: int, now: float) -> None:
        self._paid_until = max(self._paid_until, now) + _MESSAGE_S + size * _BYTE_S

    def wait_s(self, now: float) -> float:
        """How long the next message has to wait, in seconds."""
        return max(0.0, self._paid_until - now - _BURST_S)


class LargeMessages:
    """Spaces the large messages of all sockets, 10 MiB a second: decoding one may take 50 ms, and a row is felt."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def turn_in_s(self, size: int, now: float) -> float:
        """How long a message of this size waits for its turn, in seconds, which is taken."""
        if size <= LARGE_BYTES:
            return 0.0
        at = max(now, self._next_at)
        self._next_at = at + size * _LARGE_BYTE_S
        return at - now
