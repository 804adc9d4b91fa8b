"""uvicorn's HTTP protocol, with a bound on the head of a request, which httptools would read without end.

As for a WebSocket, the transport's `abort` is put into the scope's state, to drop a client that doesn't read.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 65_536


class BoundedHttp(HttpToolsProtocol):
    """One per connection. A head beyond LARGEST_HEAD bytes is refused with 400, and its connection closed."""

    _in_head = True
    _head_bytes = 0

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

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()
