"""BoundedFrames: websockets' parser, which stops after each message, and at what no honest client sends.

Control frames and fragments cost as much as a message and never reach the application, so nothing slows them down: too
many of them are abuse, and close the connection with 1008.
"""

import logging
from collections.abc import Callable, Generator

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol
from websockets.server import ServerProtocol

_FRAGMENTS_PER_MESSAGE = 1_024
_SMALL_FRAMES_PER_S = 1_024


class TooManyFrames(Exception):
    """More control frames or fragments than an honest client sends."""


class BoundedFrames(ServerProtocol):
    """`clock` tells seconds. The request that opened the connection has been read already."""

    def __init__(self, max_size: int, clock: Callable[[], float], logger: logging.Logger) -> None:
        super().__init__(max_size=max_size, logger=logger)
        self._clock = clock
        self._second_began = 0.0
        self._in_this_second = 0
        """Control frames and fragments."""
        self._fragments = 0
        """Of the message that is being received."""
        self.left = b""
        """What was read behind a message, for whoever wants to go on with it."""

    def parse(self) -> Generator[None]:
        # Not ServerProtocol's, which begins with the request.
        return Protocol.parse(self)

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT) and frame.fin:
            super().recv_frame(frame)
            self._fragments = 0
            self.left = bytes(self.reader.buffer)
            self.reader.discard()
        elif self._is_one_too_many(frame):
            self.fail(CloseCode.POLICY_VIOLATION, "too many control frames or fragments")
            self.parser_exc = TooManyFrames()
        else:
            super().recv_frame(frame)

    def _is_one_too_many(self, frame: Frame) -> bool:
        now = self._clock()
        if now - self._second_began >= 1:
            self._second_began, self._in_this_second = now, 0
        self._in_this_second += 1
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._fragments += 1
        return self._in_this_second > _SMALL_FRAMES_PER_S or self._fragments > _FRAGMENTS_PER_MESSAGE
