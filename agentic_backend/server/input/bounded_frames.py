"""BoundedFrames: websockets' parser; it stops after each message and bounds control frames and fragments.

A control frame or fragment costs as much as a message but does not reach the application, so nothing else limits them.
Too many are abuse and close the connection. A handshake that it refuses is answered as other requests are.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from http import HTTPStatus

from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Protocol
from websockets.server import ServerProtocol
from websockets.typing import StatusLike

from agentic_backend.errors import BadFrame, Internal
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.server.input.refusal import refusal_of

_FRAGMENTS_PER_MESSAGE = 1_024
_SMALL_FRAMES_PER_S = 1_024


class TooManyFrames(Exception):
    """The client has sent more control frames or fragments than allowed."""


class BoundedFrames(ServerProtocol):
    """`clock` returns seconds. The upgrade request is already read."""

    def __init__(self, max_size: int, clock: Callable[[], float], logger: logging.Logger) -> None:
        super().__init__(max_size=max_size, logger=logger)
        self._clock = clock
        # When the current second began, and the number of control frames and fragments since then.
        self._second_began = 0.0
        self._in_this_second = 0
        self._fragments = 0
        """The number of fragments of the current message."""
        self.left = b""
        """The bytes after the last message; the owner feeds them back for the next message."""
        self._asked: Mapping[str, str] = {}
        """The fields of the handshake while it is checked, by names in lower case: its refusal names its ids."""

    def accept(self, request: Request) -> Response:
        self._asked = {name.lower(): value for name, value in request.headers.raw_items()}
        response = super().accept(request)
        self._asked = {}
        return response

    def reject(self, status: StatusLike, text: str) -> Response:
        error = Internal() if status >= 500 else BadFrame(text.strip())
        refusal = refusal_of(error, int(status), self._asked)
        if status < 500:
            # The one version that is spoken here (RFC 6455 §4.4).
            refusal.headers["sec-websocket-version"] = "13"
        return Response(int(status), HTTPStatus(status).phrase, Headers(refusal.headers.items()), bytes(refusal.body))

    def parse(self) -> Generator[None]:
        # Not ServerProtocol's `parse`, which starts with the request.
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
