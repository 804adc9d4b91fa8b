"""uvicorn's HTTP protocol with an unmistakable end of each request, and with bounds on a client's cost.

Each request is answered once, in its order, and no byte of it is read as another one: what proxies could read
differently is refused (`request_head`), an upgrade to anything but a WebSocket is ignored, and trailers are dropped.
After a refusal the connection is closed.

It parses input in slices (`SlicedInput`), and stops while a pipelined request waits. It bounds a request's head, its
fields and the body after the response, which httptools does not. As for a WebSocket, the scope's state holds the
transport's `abort`, to drop a client that doesn't read; and `has_client_ended`, whether it only listens, or has gone.
"""

from asyncio import TimerHandle, Transport
from typing import Any, Never, cast

import httptools
from starlette.datastructures import Headers
from starlette.responses import Response
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from websockets.datastructures import Headers as HandshakeHeaders
from websockets.http11 import Request

from agentic_backend.errors import BadFrame, MessageTooLarge
from agentic_backend.server.input.abortable_websocket import AbortableWebSocket
from agentic_backend.server.input.accepted_connections import AcceptedConnections
from agentic_backend.server.input.message_pace import LargeMessages
from agentic_backend.server.input.refusal import refusal_of
from agentic_backend.server.input.request_head import RequestRefused, asks_for_websocket, has_body, origin_form
from agentic_backend.server.input.sliced_input import SlicedInput

LARGEST_HEAD = 65_536
MOST_FIELDS = 128
HEAD_TIMEOUT_S = 20.0
# A body may have this many pieces of any size; more pieces must have this many bytes on average.
_BODY_PIECES, _BODY_PIECE_BYTES = 1_024, 256
_UNHEARD_BODY_BYTES, _UNHEARD_BODY_S = 1024 * 1024, 10.0
_PIPELINED_S = 0.005
_PROBE_S = 0.5


# How an answer is framed for clients that uvicorn's cycle would answer wrongly. Others cost nothing.


def framed(cycle: RequestResponseCycle, app: ASGI3Application) -> ASGI3Application:
    """The application that answers in `cycle`.

    A client of HTTP/1.0 knows no chunks: an answer without a length ends with its connection (RFC 9112 §6.3). Who waits
    for `100 Continue` and gets a final answer may send the body or not, so what follows can't be told apart from it:
    that answer closes the connection (RFC 9110 §10.1.1).
    """
    if cycle.scope["http_version"] != "1.0" and not cycle.waiting_for_100_continue:
        return app

    async def answering(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        ends_with_connection = False

        async def send_framed(message: ASGISendEvent) -> None:
            nonlocal ends_with_connection
            if message["type"] == "http.response.start":
                if cycle.waiting_for_100_continue:
                    cycle.keep_alive = False
                names = {name.lower() for name, _ in message.get("headers", ())}
                if cycle.scope["http_version"] == "1.0" and b"content-length" not in names:
                    ends_with_connection, cycle.chunked_encoding = True, False
            elif message["type"] == "http.response.body" and ends_with_connection:
                # Each part is as long as it is expected to be.
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_framed)

    return answering


class BoundedHttp(HttpToolsProtocol):
    """One per connection. Refuses a head beyond LARGEST_HEAD bytes or MOST_FIELDS fields with 431, and closes the
    connection.

    It also closes a connection whose head is incomplete after HEAD_TIMEOUT_S; uvicorn closes one that is idle after a
    response. A body that continues too long after its response is complete ends the connection. A client that has sent
    all that it will send, and only listens, gets its answers (RFC 9112 §9.6).
    """

    _input: SlicedInput
    _in_head = False
    _method = b""
    """That of the current request; empty until its head is read."""
    _is_websocket = False
    """Whether the current request asks for a WebSocket."""
    _is_pipelined = False
    """Whether the request that starts now arrived before the previous response was complete."""
    _framing_bytes = 0
    """Bytes of a head, of trailers or of a body's framing, since the last piece of the body."""
    _fields = _body_pieces = _body_bytes = _unheard_bytes = 0
    _active: RequestResponseCycle | None = None
    """The request that is answered now, or was last; uvicorn's `cycle` is the one that has arrived last."""
    _head_timer: TimerHandle | None = None
    _unheard_timer: TimerHandle | None = None
    _probe_timer: TimerHandle | None = None
    _refusal: RequestRefused | None = None
    """Why parsing was stopped."""
    _last_answer: Response | None = None
    """The refusal that is sent once the requests before it are answered. Nothing is parsed meanwhile."""

    def __init__(self, *args: Any, accepted: AcceptedConnections, large_messages: LargeMessages, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._accepted = accepted
        self._large_messages = large_messages

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._input = SlicedInput(
            transport, self.loop, parse=self._parse, may_parse=self._may_parse, ended=self._input_ended
        )
        # FlowControl only uses `pause_reading` and `resume_reading` of a transport.
        self.flow = FlowControl(cast(Transport, self._input))
        if self._accepted.accept(transport):
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._input.release()
        self._have_head()
        self._have_body()
        if self._probe_timer is not None:
            self._probe_timer.cancel()
        # uvicorn tells only the application of the newest request.
        _disconnect(self._active)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._input.take(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        self._input.take_end()
        # The transport stays open for the answers; `_input_ended` closes it.
        return True

    def on_message_begin(self) -> None:
        # Not at any input: bytes between requests don't keep a connection open.
        self._unset_keepalive_if_required()
        super().on_message_begin()
        self._method = b""
        self.scope["state"].update(abort=self.transport.abort, has_client_ended=self._has_client_ended)
        self._in_head = True
        self._framing_bytes = self._fields = self._body_pieces = self._body_bytes = self._unheard_bytes = 0
        self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            self._stop(_too_large())
        # Trailers are only counted: who reads them as headers believes what no proxy has checked (RFC 9110 §6.5.1).
        if self._in_head:
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self._have_head()
        self._method = method = self.parser.get_method()
        version = self.parser.get_http_version()
        try:
            self.url = origin_form(method, self.url, version, self.headers)
        except RequestRefused as refused:
            self._stop(refused)
        self._is_websocket = self.parser.should_upgrade() and asks_for_websocket(method, version, self.headers)
        if self._is_websocket and (has_body(self.headers) or self._is_answering):
            # websockets supports no body, and a connection can't serve two requests at a time.
            self._stop(RequestRefused(BadFrame("A WebSocket begins with a request of its own, without a body.")))
        if self.parser.should_upgrade() and not self._is_websocket:
            # The parser skips the body now. `_parse` reads the request again.
            return
        self._in_head, self._framing_bytes = False, 0
        self.expect_100_continue &= version == "1.1"
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        self._body_pieces += 1
        self._body_bytes += len(body)
        if self._body_pieces > _BODY_PIECES + self._body_bytes // _BODY_PIECE_BYTES:
            self._stop(RequestRefused(BadFrame("The body comes in too small pieces.")))
        super().on_body(body)
        if self.cycle.response_complete:
            self._unheard_bytes += len(body)
            if self._unheard_bytes > _UNHEARD_BODY_BYTES:
                self._input.end()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._have_body()
        super().on_message_complete()
        if self.cycle.response_complete:
            self._await_next()
        if not self.parser.should_keep_alive():
            # A trailer may have told the parser that nothing follows, and it swallows what does.
            self.cycle.keep_alive = False
            if self.cycle.response_complete:
                self.transport.close()

    def on_response_complete(self) -> None:
        self._is_pipelined = bool(self.pipeline)
        super().on_response_complete()
        self._is_pipelined = False
        if self.cycle.response_complete and self.cycle.more_body and self._unheard_timer is None:
            self._unheard_timer = self.loop.call_later(_UNHEARD_BODY_S, self._input.end)
        if self._last_answer is not None and not self._is_answering:
            self._send_last(self._last_answer)
        self._input.go_on()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active = cycle
        app = framed(cycle, app)
        if not self._is_pipelined:
            super()._start_asgi_task(cycle, app)
        elif not self.transport.is_closing():
            # Browsers and proxies don't pipeline. Without a delay such requests would keep the event loop busy.
            self.loop.call_later(_PIPELINED_S, super()._start_asgi_task, cycle, app)

    def _should_upgrade(self) -> bool:
        return self._is_websocket

    def timeout_keep_alive_handler(self) -> None:
        # The rest of a body that nobody hears has a timer of its own.
        if self._unheard_timer is None:
            super().timeout_keep_alive_handler()

    def _await_next(self) -> None:
        """Close the connection if the next request doesn't begin in time."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _parse(self, data: bytes) -> None:
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse(self._refusal or RequestRefused(BadFrame("This is not a valid HTTP request.")))
            return
        self._framing_bytes += len(data)
        if self._framing_bytes > LARGEST_HEAD:
            self._refuse(_too_large())

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            behind = data[upgrade.args[0] :]
            if self._is_websocket:
                self._open_websocket(behind)
            else:
                self._input.put_back(behind)
                self._read_without_upgrade()

    def _read_without_upgrade(self) -> None:
        """Read the head again without its `Upgrade`, which a server may ignore (RFC 9110 §7.8).

        The parser would read no body behind it, and take that for the next request. `h2c` is offered with every plain
        request by Java's HttpClient.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version()
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version.encode(), b"".join(fields)))

    def _open_websocket(self, behind: bytes) -> None:
        """Hand over the parsed request: uvicorn would let websockets parse it again, which refuses lines over 8 KiB."""
        if self._input.has_ended:
            # A WebSocket needs both directions.
            self.transport.close()
            return
        self.connections.discard(self)
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers]
        request = Request(self.url.decode("ascii"), HandshakeHeaders(fields), self.scope["method"])
        websocket = AbortableWebSocket(
            self.config, self.server_state, self.app_state, self.loop, large_messages=self._large_messages
        )
        websocket.connection_made(self.transport)
        self.transport.set_protocol(websocket)
        websocket.open(request, behind + self._input.release())

    def _input_ended(self) -> None:
        """The client has sent all that it will send, and it is parsed."""
        if self._last_answer is None and (self._in_head or (self._is_answering and self.cycle.more_body)):
            self._refuse(RequestRefused(BadFrame("The request ends in its middle.")))
        if self._active is None or not self._is_answering:
            self.transport.close()
            return
        if self._last_answer is None:
            self.cycle.keep_alive = False
        # What streams an answer looks again at whether its client has ended.
        self._active.message_event.set()
        if self._probe_timer is None:
            self._probe_timer = self.loop.call_later(_PROBE_S, self._probe)

    def _probe(self) -> None:
        """Find out whether a client that has ended its side still listens: if it has gone, what is sent is reset.

        An answer that has begun sends something itself, in time.
        """
        if (
            self._active is not None
            and not self._active.response_started
            and self._active.scope["http_version"] == "1.1"
        ):
            self.transport.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        self._probe_timer = self.loop.call_later(_PROBE_S, self._probe)

    def _stop(self, refusal: RequestRefused) -> Never:
        """Make the parser stop, from within one of its callbacks."""
        self._refusal = refusal
        raise refusal

    def _refuse(self, refused: RequestRefused) -> None:
        if not self._in_head and not self._is_answering:
            # The request has its answer already; another one would be taken for that to the next request.
            self._input.end()
            return
        answer = refusal_of(refused.error, refused.status, Headers(raw=self.headers or []))
        if refused.allow is not None:
            answer.headers["allow"] = refused.allow
        if not self._in_head and self.cycle.more_body:
            # The refused request has the newest cycle.
            if self.pipeline:
                self.pipeline.popleft()
                newest = self.pipeline[0][0] if self.pipeline else self._active
                assert newest is not None, "a request waits only behind another one"
                self.cycle = newest
            elif self.cycle.response_started:
                # Another answer can't be sent within this one.
                self.transport.close()
                return
            else:
                # The application gets a disconnect, and its response is dropped.
                _disconnect(self._active)
                self._active = None
        if self._is_answering:
            self._last_answer = answer
        else:
            self._send_last(answer)

    def _send_last(self, answer: Response) -> None:
        self._last_answer = None
        if self.transport.is_closing():
            return
        fields = b"".join(b"%b: %b\r\n" % field for field in answer.raw_headers)
        body = b"" if self._method == b"HEAD" else bytes(answer.body)
        self.transport.write(STATUS_LINE[answer.status_code] + fields + b"\r\n" + body)
        self._input.end()

    @property
    def _is_answering(self) -> bool:
        return bool(self.pipeline) or (self._active is not None and not self._active.response_complete)

    def _has_client_ended(self) -> bool:
        return self._input.has_ended

    def _may_parse(self) -> bool:
        return not self.flow.read_paused and not self.pipeline and self._last_answer is None

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._accepted.silent(self.transport)
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _head_is_late(self) -> None:
        if self._is_answering:
            # It has begun behind a request whose answer takes its time.
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)
        else:
            self.transport.close()

    def _have_head(self) -> None:
        if self._head_timer is not None:
            self._accepted.heard(self.transport)
            self._head_timer.cancel()
            self._head_timer = None

    def _have_body(self) -> None:
        if self._unheard_timer is not None:
            self._unheard_timer.cancel()
            self._unheard_timer = None


def _disconnect(cycle: RequestResponseCycle | None) -> None:
    """Tell the application that its client has gone."""
    if cycle is not None and not cycle.response_complete:
        cycle.disconnected = True
        cycle.message_event.set()


def _too_large() -> RequestRefused:
    return RequestRefused(MessageTooLarge("The head of the request is too large."), 431)
