"""SlicedInput: passes a connection's input to its parser in slices, a few per event loop iteration.

uvloop reads 256 KB at a time, up to 32 times before it serves other connections. If one read contains tiny frames,
parsing takes a quarter of a second. So input waits here while reading is paused, and the loop serves others between
slices. Owned by the connection's protocol; at most one read waits.
"""

import asyncio
from collections.abc import Callable
from time import thread_time

_SLICE = 4096
_ROUND_S = 0.001
# A round of at least this length is followed by a pause of this multiple, so that no connection's input takes more
# than a tenth of the event loop.
_LONG_ROUND_S, _REST = 0.0002, 9
# After `end` the connection stays open for this time, unless its peer sends more than this.
_LINGER_S = 1.0
# How long a peer may take to read what was sent to it before `end`.
_READING_S = 30.0
_LINGER_BYTES = 1024 * 1024


class SlicedInput:
    """`parse` takes a slice; `may_parse` returns whether it would take one now.

    When that becomes true again, the owner calls `go_on`. It may be told several times that its peer has `ended`.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        parse: Callable[[bytes], None],
        may_parse: Callable[[], bool],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._parse = parse
        self._may_parse = may_parse
        self._ended = ended
        """Called once all is parsed that the peer has sent before it ended its side."""
        self.has_ended = False
        """Whether the peer has ended its side."""
        self._waiting = bytearray()
        """The input that is not parsed yet."""
        self._next_round: asyncio.Handle | None = None
        """The scheduled round; None if nothing waits, or if the owner has to call `go_on` first."""
        self._is_parsing = False
        """Whether a round runs: the parser may call `go_on` during it."""
        self._discarded: int | None = None
        """The number of bytes received after `end`; None before it."""
        self._dropping: asyncio.TimerHandle | None = None
        """The timer that drops the connection after `end`."""

    def take(self, data: bytes) -> None:
        """Accept bytes that the transport has read."""
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > _LINGER_BYTES:
                self._transport.abort()
            return
        self._waiting += data
        if self._next_round is None:
            self._round()
        else:
            self._transport.pause_reading()

    def take_end(self) -> None:
        """Accept that the peer sends nothing more."""
        if self._discarded is not None:
            # Nothing is awaited from it either.
            self._transport.close()
        elif not self.has_ended:
            self.has_ended = True
            if not self._waiting:
                self._ended()

    def put_back(self, data: bytes) -> None:
        """Return bytes that the parser has left; they come first in the next slice."""
        self._waiting[:0] = data

    def go_on(self) -> None:
        """Schedule the next round, after other connections have had their turn."""
        if self._next_round is None and not self._is_parsing and self._discarded is None:
            self._next_round = self._loop.call_soon(self._round)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self.go_on()

    def end(self) -> asyncio.TimerHandle:
        """Stop parsing, and drop the connection after _LINGER_S, or once the last data is sent.

        An immediate close with unread input in the kernel would reset the connection, and the last data could be lost.
        """
        if self._dropping is None:
            self._discarded = 0
            self._waiting.clear()
            self._dropping = self._loop.call_later(_LINGER_S, self._drop, self._loop.time() + _READING_S)
            if not self._transport.is_closing():
                self._read_on()
                self._transport.write_eof()
        return self._dropping

    def release(self) -> bytes:
        """Stop, because the connection is lost or another protocol takes over; return the unparsed input."""
        waiting = bytes(self._waiting)
        self._discarded = 0
        self._waiting.clear()
        for timer in (self._next_round, self._dropping):
            if timer is not None:
                timer.cancel()
        return waiting

    def _drop(self, at_last: float) -> None:
        """Drop the connection, but not while its peer still reads, until the time `at_last`."""
        if self._transport.get_write_buffer_size() and self._loop.time() < at_last:
            self._dropping = self._loop.call_later(_LINGER_S, self._drop, at_last)
        else:
            self._transport.abort()

    def _round(self) -> None:
        self._next_round, self._is_parsing = None, True
        began, took_s = thread_time(), 0.0
        try:
            while self._waiting and self._discarded is None and took_s < _ROUND_S and self._may_parse():
                piece = bytes(self._waiting[:_SLICE])
                del self._waiting[:_SLICE]
                self._parse(piece)
                took_s = thread_time() - began
        finally:
            self._is_parsing = False
        if self._discarded is None and not self._transport.is_closing():
            self._after_round(took_s)
            if self.has_ended and not self._waiting:
                self._ended()

    def _after_round(self, took_s: float) -> None:
        if took_s >= _LONG_ROUND_S:
            self._next_round = self._loop.call_later(took_s * _REST, self._round)
        if not self._waiting and self._may_parse():
            self._read_on()
            return
        self._transport.pause_reading()
        if self._may_parse() and self._next_round is None:
            self._next_round = self._loop.call_soon(self._round)

    def _read_on(self) -> None:
        # Behind the end uvloop would tell of it again and again.
        if not self.has_ended:
            self._transport.resume_reading()
