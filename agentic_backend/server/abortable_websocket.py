"""uvicorn's WebSocket protocol with bounds on a client's cost, and a way to drop a client that doesn't read.

It parses input in slices (`SlicedInput`), one message at a time (`BoundedFrames`), at a bounded pace (`MessagePace`).
Until the application admits the client, messages must be small, and the second one waits. If a client doesn't read,
`close` blocks like `send`, and an ASGI scope has no transport. So the scope's state holds `abort` and `admit`.
"""

import asyncio
from asyncio.transports import BaseTransport
from typing import Any

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from agentic_backend.server.bounded_frames import BoundedFrames
from agentic_backend.server.message_pace import LargeMessages, MessagePace
from agentic_backend.server.sliced_input import SlicedInput

UNADMITTED_BYTES = 65_536


class AbortableWebSocket(WebSocketsSansIOProtocol):
    # The input that is read but not parsed yet.
    _input: SlicedInput
    # The timer for the next message; None if it need not wait.
    _pacing: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, large_messages: LargeMessages, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Spaces the large messages of all sockets.
        self._large_messages = large_messages
        # The parser. Until the client is admitted, messages must be small.
        first_bytes = min(UNADMITTED_BYTES, self.config.ws_max_size)
        self.conn: BoundedFrames = BoundedFrames(first_bytes, self.loop.time, self.logger)
        # The pace at which this client's messages are read.
        self._pace = MessagePace()
        # Whether the application has admitted the client, and whether a message has arrived. Before, only one is read.
        self._is_admitted = self._has_spoken = False

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._input = SlicedInput(self.transport, self.loop, parse=self._parse, may_parse=self._may_parse)

    def open(self, request: Request, behind: bytes) -> None:
        """Start with the upgrade request, and the bytes that were read after it."""
        self.handle_connect(request)
        self._input.take(behind)

    def connection_lost(self, exc: Exception | None) -> None:
        self._input.release()
        if self._pacing is not None:
            self._pacing.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._input.take(data)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # A refused handshake has no scope. The task of an accepted one starts after this call.
        if self.response.status_code == 101:
            self.scope["state"] |= {"abort": self.transport.abort, "admit": self._admit}

    def handle_ping(self) -> None:
        pong = b"".join(self.conn.data_to_send())
        # Pongs would pile up if the client doesn't read. RFC 6455 §5.5.3 only wants one for the latest ping.
        if self.writable.is_set() and not self.transport.is_closing():
            self.transport.write(pong)

    def handle_parser_exception(self) -> None:
        assert self.conn.close_sent is not None
        was_closing, self.close_sent = self.close_sent, True
        self.stop_keepalive()
        if was_closing:
            # The close frame is sent already, and the client still sends invalid data.
            self.transport.abort()
            return
        close = self.conn.close_sent
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code, "reason": close.reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_timer = self._input.end()

    async def receive(self) -> ASGIReceiveEvent:
        message = await self.queue.get()
        if message["type"] == "websocket.receive":
            size = len(message.get("text") or message.get("bytes") or "")
            turn_in_s = self._large_messages.turn_in_s(size, self.loop.time())
            if turn_in_s > 0:
                await asyncio.sleep(turn_in_s)
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._input.go_on()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # uvicorn otherwise logs an error: it does not count a refusal with a response as a handshake's end.
            self.handshake_complete = self.close_sent
        if message["type"] != "websocket.send":
            # Parsing starts after `accept`. After `close` the pace no longer matters.
            self._input.go_on()

    def _admit(self) -> None:
        self._is_admitted = True
        self.conn.max_message_size = self.config.ws_max_size
        self._input.go_on()

    def _may_parse(self) -> bool:
        if self.read_paused or not self.handshake_complete or self._pacing is not None:
            return False
        return self._is_admitted or not self._has_spoken or self.close_sent

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.left:
            self._input.put_back(self.conn.left)
            self.conn.left = b""

    def send_receive_event_to_app(self) -> None:
        self._has_spoken = True
        now = self.loop.time()
        self._pace.count(sum(map(len, self.frames)), now)
        wait_s = self._pace.wait_s(now)
        if wait_s > 0:
            self._pacing = self.loop.call_later(wait_s, self._paced)
        super().send_receive_event_to_app()

    def _paced(self) -> None:
        self._pacing = None
        self._input.go_on()
