"""uvicorn's HTTP protocol with bounds on a client's cost.

It parses input in slices (`SlicedInput`), and stops while a pipelined request waits. It bounds a request's head, its
fields and the body after the response, which httptools does not. As for a WebSocket, the scope's state holds the
transport's `abort`, to drop a client that doesn't read.
"""

import logging
from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from websockets.datastructures import Headers
from websockets.http11 import Request

from agentic_backend.server.abortable_websocket import AbortableWebSocket
from agentic_backend.server.accepted_connections import AcceptedConnections
from agentic_backend.server.message_pace import LargeMessages
from agentic_backend.server.sliced_input import SlicedInput

log = logging.getLogger(__name__)

LARGEST_HEAD = 65_536
MOST_FIELDS = 128
HEAD_TIMEOUT_S = 20.0
# A body may have this many pieces of any size; more pieces must have this many bytes on average.
_BODY_PIECES, _BODY_PIECE_BYTES = 1_024, 256
_UNHEARD_BODY_BYTES, _UNHEARD_BODY_S = 1024 * 1024, 10.0
_PIPELINED_S = 0.005
_TOO_LARGE = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head of the request is too large.")


class _CannotRead(Exception):
    """Raised in a callback to make httptools stop parsing."""


class BoundedHttp(HttpToolsProtocol):
    """One per connection. Refuses a head beyond LARGEST_HEAD bytes or MOST_FIELDS fields with 431, and closes the
    connection.

    It also closes a connection whose head is incomplete after HEAD_TIMEOUT_S; uvicorn closes one that is idle after a
    response. A body that continues too long after its response is complete ends the connection.
    """

    _input: SlicedInput
    _in_head = True
    _is_pipelined = False
    """Whether the request that starts now arrived before the previous response was complete."""
    _head_bytes = _fields = _body_pieces = _body_bytes = _unheard_bytes = 0
    _head_timer: TimerHandle | None = None
    _unheard_timer: TimerHandle | None = None
    _refusal: tuple[HTTPStatus, str] | None = None
    """The status and message for which parsing was stopped."""

    def __init__(self, *args: Any, accepted: AcceptedConnections, large_messages: LargeMessages, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._accepted = accepted
        self._large_messages = large_messages

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._input = SlicedInput(transport, self.loop, parse=self._parse, may_parse=self._may_parse)
        # FlowControl only uses `pause_reading` and `resume_reading` of a transport.
        self.flow = FlowControl(cast(Transport, self._input))
        if self._accepted.accept(transport):
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._input.release()
        self._have_head()
        self._have_body()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._input.take(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["abort"] = self.transport.abort
        self._in_head = True
        self._head_bytes = self._fields = self._body_pieces = self._body_bytes = self._unheard_bytes = 0
        self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Called for the trailers of a chunked body too.
        self._fields += 1
        if self._fields > MOST_FIELDS:
            self._stop(*_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._have_head()
        if self.parser.should_upgrade() and self._should_upgrade():
            # websockets supports no body, and a connection can't serve two requests at a time.
            if any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers) or self._is_answering:
                self._stop(HTTPStatus.BAD_REQUEST, "A WebSocket begins with a request of its own, without a body.")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_pieces += 1
        self._body_bytes += len(body)
        if self._body_pieces > _BODY_PIECES + self._body_bytes // _BODY_PIECE_BYTES:
            self._stop(HTTPStatus.BAD_REQUEST, "The body comes in too small pieces.")
        super().on_body(body)
        if self.cycle.response_complete:
            self._unheard_bytes += len(body)
            if self._unheard_bytes > _UNHEARD_BODY_BYTES:
                self._input.end()

    def on_message_complete(self) -> None:
        self._have_body()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._is_pipelined = bool(self.pipeline)
        super().on_response_complete()
        self._is_pipelined = False
        if self.cycle.response_complete and self.cycle.more_body and self._unheard_timer is None:
            self._unheard_timer = self.loop.call_later(_UNHEARD_BODY_S, self._input.end)
        self._input.go_on()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if not self._is_pipelined:
            super()._start_asgi_task(cycle, app)
        elif not self.transport.is_closing():
            # Browsers and proxies don't pipeline. Without a delay such requests would keep the event loop busy.
            self.loop.call_later(_PIPELINED_S, super()._start_asgi_task, cycle, app)

    def _parse(self, data: bytes) -> None:
        was_in_head = self._in_head
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            behind = data[upgrade.args[0] :]
            if self._should_upgrade():
                self._open_websocket(behind)
            else:
                # An unknown upgrade is ignored: the request is served as plain HTTP.
                self._input.put_back(behind)
            return
        except httptools.HttpParserError:
            self._refuse(*self._refusal or (HTTPStatus.BAD_REQUEST, "Invalid HTTP request received."))
            return
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
        if self._head_bytes > LARGEST_HEAD:
            self._refuse(*_TOO_LARGE)

    def _open_websocket(self, behind: bytes) -> None:
        """Hand over the parsed request: uvicorn would let websockets parse it again, which refuses lines over 8 KiB."""
        self.connections.discard(self)
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers]
        try:
            request = Request(self.url.decode("ascii"), Headers(fields), self.scope["method"])
        except UnicodeDecodeError:
            self._refuse(HTTPStatus.BAD_REQUEST, "Invalid HTTP request received.")
            return
        websocket = AbortableWebSocket(
            self.config, self.server_state, self.app_state, self.loop, large_messages=self._large_messages
        )
        websocket.connection_made(self.transport)
        self.transport.set_protocol(websocket)
        websocket.open(request, behind + self._input.release())

    def _stop(self, status: HTTPStatus, message: str) -> None:
        self._refusal = (status, message)
        raise _CannotRead

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        log.info("request refused", extra={"code": f"http_{status}"})
        if self._is_answering:
            if self.pipeline or self.cycle.response_started:
                # The refusal can't be sent before or within another response.
                self.transport.close()
                return
            # The application gets a disconnect, and its response is dropped.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        fields = {
            "content-type": "text/plain; charset=utf-8",
            "content-length": str(len(message)),
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
            "connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.transport.write(STATUS_LINE[status] + f"{head}\r\n{message}".encode("ascii"))
        self._input.end()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not (self.cycle.response_complete and not self.pipeline)

    def _may_parse(self) -> bool:
        return not self.flow.read_paused and not self.pipeline

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._accepted.silent(self.transport)
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _have_head(self) -> None:
        if self._head_timer is not None:
            self._accepted.heard(self.transport)
            self._head_timer.cancel()
            self._head_timer = None

    def _have_body(self) -> None:
        if self._unheard_timer is not None:
            self._unheard_timer.cancel()
            self._unheard_timer = None
