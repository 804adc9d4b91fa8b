"""uvicorn's WebSocket protocol with bounds on a client's cost, and a way to drop a client that doesn't read.

It parses input in slices (`SlicedInput`), one message at a time (`BoundedFrames`), at a bounded pace (`MessagePace`).
Until the application admits the client, messages must be small, and the second one waits. If a client doesn't read,
`close` blocks like `send`, so there is `abort`.

Most sockets are idle, so each holds little. What an application leaves in its scope's state as `serve` is called with
the socket after the application has returned, so that no middleware's frame stays meanwhile. With `admit` the handshake
is forgotten.
"""

import asyncio
from asyncio.transports import BaseTransport
from typing import Any

from uvicorn._types import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, ASGISendEvent, Scope
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Request

from agentic_backend.relay.light_event import LightEvent
from agentic_backend.server.input.bounded_frames import BoundedFrames
from agentic_backend.server.input.message_pace import LargeMessages, MessagePace
from agentic_backend.server.input.sliced_input import SlicedInput

UNADMITTED_BYTES = 65_536


class Inbox:
    """The messages of one WebSocket for its application, in order.

    It stands in for uvicorn's asyncio.Queue, whose deques take 3 KiB also while nothing waits. One task reads it. It
    stays short: the client is not read from while a message waits.
    """

    __slots__ = ("_messages", "_reader")

    def __init__(self) -> None:
        self._messages: list[ASGIReceiveEvent] = []
        self._reader: asyncio.Future[None] | None = None
        """Done when a message is there; None while nobody waits."""

    def put_nowait(self, message: ASGIReceiveEvent) -> None:
        self._messages.append(message)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> ASGIReceiveEvent:
        """The next message. No timeout: a client may be silent as long as it answers the pings."""
        while not self._messages:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._messages.pop(0)

    def empty(self) -> bool:
        return not self._messages


class AbortableWebSocket(WebSocketsSansIOProtocol):
    _input: SlicedInput
    """The input that is read but not parsed yet."""
    _pacing: asyncio.TimerHandle | None = None
    """The timer for the next message; None if it need not wait."""

    def __init__(self, *args: Any, large_messages: LargeMessages, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app = self._serve
        # The messages for the application, and whether the client reads what it is sent: lighter than uvicorn's.
        self.queue: Inbox = Inbox()  # type: ignore[assignment]
        self.writable: LightEvent = LightEvent()  # type: ignore[assignment]
        self.writable.set()
        self._large_messages = large_messages
        """Spaces the large messages of all sockets."""
        # The parser. Until the client is admitted, messages must be small.
        first_bytes = min(UNADMITTED_BYTES, self.config.ws_max_size)
        self.conn: BoundedFrames = BoundedFrames(first_bytes, self.loop.time, self.logger)
        self._pace = MessagePace()
        """The pace at which this client's messages are read."""
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

    async def _serve(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await self.config.loaded_app(scope, receive, send)
        if "serve" in self.scope["state"]:
            # Not in a variable, which would keep what only the first steps need.
            await self.scope["state"].pop("serve")(self)

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

    @property
    def is_writable(self) -> bool:
        return self.writable.is_set()

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "websocket.send" and (message.get("more") or self.conn.expect_continuation_frame):
            await self._send_fragment(message["text"] or "", is_last=not message.get("more"))
            return
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # uvicorn otherwise logs an error: it does not count a refusal with a response as a handshake's end.
            self.handshake_complete = self.close_sent
        if message["type"] != "websocket.send":
            # Parsing starts after `accept`. After `close` the pace no longer matters.
            self._input.go_on()

    async def _send_fragment(self, text: str, *, is_last: bool) -> None:
        """Send a fragment of a message (RFC 6455 §5.4); between two of them there may be control frames.

        Raises ClientDisconnected.
        """
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        try:
            if self.conn.expect_continuation_frame:
                self.conn.send_continuation(text.encode(), fin=is_last)
            else:
                self.conn.send_text(text.encode(), fin=is_last)
        except InvalidState as error:
            raise ClientDisconnected from error
        self.transport.write(b"".join(self.conn.data_to_send()))

    def admit(self) -> None:
        """Read messages of any size that the settings allow, one after the other, and forget the handshake."""
        self._is_admitted = True
        # With the client's headers and query, also for others who hold the lists and the scope.
        self.scope["headers"] = []
        self.scope.clear()  # type: ignore[attr-defined]
        del self.request, self.response
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

    def abort(self) -> None:
        """Drop the client without a word, also while it doesn't read."""
        self.transport.abort()

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
