"""uvicorn's HTTP protocol, with bounds on the head of a request, which httptools would read and await without end.

As for a WebSocket, the transport's `abort` is put into the scope's state, to drop a client that doesn't read.
"""

from asyncio import TimerHandle, Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 65_536
HEAD_TIMEOUT_S = 20.0


class BoundedHttp(HttpToolsProtocol):
    """One per connection. A head beyond LARGEST_HEAD bytes is refused with 400, and its connection closed.

    A connection whose head isn't there after HEAD_TIMEOUT_S is closed too; uvicorn closes one that is idle after an
    answer.
    """

    _in_head = True
    _head_bytes = 0
    _head_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
        if self._head_bytes > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["abort"] = self.transport.abort
        self._in_head, self._head_bytes = True, 0
        self._await_head()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._have_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _have_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
