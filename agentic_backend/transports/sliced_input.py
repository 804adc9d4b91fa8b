"""SlicedInput: what a connection's peer sends, handed to its parser a little in each round of the event loop.

uvloop reads 256 KB at a time, and up to 32 times before anybody else has a turn. In tiny frames one such read is a
quarter of a second of parsing. So what was read waits here, reading pauses meanwhile, and between two slices the loop
serves others. Owned by the connection's protocol; at most one read waits.
"""

import asyncio
from collections.abc import Callable
from time import thread_time

_SLICE = 4096
_ROUND_S = 0.001
# A round that took so long is followed by a rest of so many times as long: nobody's input takes more than a tenth of
# the event loop.
_LONG_ROUND_S, _REST = 0.0002, 9
_LINGER_S = 1.0
_LINGER_BYTES = 1024 * 1024


class SlicedInput:
    """`parse` takes a slice; `may_parse` says whether it would take one now.

    Once it would again, its owner calls `go_on`.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        parse: Callable[[bytes], None],
        may_parse: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._parse = parse
        self._may_parse = may_parse
        self._waiting = bytearray()
        """Read, but not parsed yet."""
        self._next_round: asyncio.Handle | None = None
        self._is_parsing = False
        self._discarded: int | None = None
        """Bytes that came after `end`; None before it."""
        self._dropping: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        """More has been read."""
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

    def put_back(self, data: bytes) -> None:
        """The parser has left this; it comes first in the next slice."""
        self._waiting[:0] = data

    def go_on(self) -> None:
        """Parsing may go on; in the next round, so that others have their turn."""
        if self._next_round is None and not self._is_parsing and self._discarded is None:
            self._next_round = self._loop.call_soon(self._round)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self.go_on()

    def end(self) -> asyncio.TimerHandle:
        """Parse no more, and drop the connection in a while: the peer has until then to read what was written last.

        Closed at once, with something unread in the kernel, the connection would be reset, and that might be lost.
        """
        if self._dropping is None:
            self._discarded = 0
            self._waiting.clear()
            self._dropping = self._loop.call_later(_LINGER_S, self._transport.abort)
            if not self._transport.is_closing():
                self._transport.resume_reading()
                self._transport.write_eof()
        return self._dropping

    def release(self) -> bytes:
        """Stop, because the connection is gone or another takes it over; what has not been parsed."""
        waiting = bytes(self._waiting)
        self._discarded = 0
        self._waiting.clear()
        for timer in (self._next_round, self._dropping):
            if timer is not None:
                timer.cancel()
        return waiting

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

    def _after_round(self, took_s: float) -> None:
        if took_s >= _LONG_ROUND_S:
            self._next_round = self._loop.call_later(took_s * _REST, self._round)
        if not self._waiting and self._may_parse():
            self._transport.resume_reading()
            return
        self._transport.pause_reading()
        if self._may_parse() and self._next_round is None:
            self._next_round = self._loop.call_soon(self._round)
