"""UnreadProgress: bounds the progress events of a log that not every reader has read."""

from collections import deque

from agentic_backend.protocol.events import Activity

MOST, MOST_BYTES = 5_000, 1024 * 1024
"""The most unread progress events of one exchange, and their bytes as JSON."""


class UnreadProgress:
    """Owned by its log."""

    def __init__(self) -> None:
        # The seq and the bytes of each event, oldest first.
        self._events: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def add(self, event: Activity, read_by_all: int) -> list[int]:
        """Note a new event; return the seqs of the oldest ones, which no longer fit.

        All readers have everything up to `read_by_all`.
        """
        while self._events and self._events[0][0] <= read_by_all:
            self._drop()
        size = len(event.model_dump_json())
        self._events.append((event.seq, size))
        self._bytes += size
        left_out = []
        while len(self._events) > MOST or (self._bytes > MOST_BYTES and len(self._events) > 1):
            left_out.append(self._drop())
        return left_out

    def clear(self) -> None:
        self._events.clear()
        self._bytes = 0

    def _drop(self) -> int:
        seq, size = self._events.popleft()
        self._bytes -= size
        return seq
