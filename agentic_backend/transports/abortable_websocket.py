"""uvicorn's WebSocket protocol, with a way to drop a connection whose client doesn't read.

To such a client `close` waits as long as `send` does, and an ASGI scope holds no transport: so the transport's `abort`
is put into the scope's state.
"""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request


class AbortableWebSocket(WebSocketsSansIOProtocol):
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # A handshake that can't be read, such as one with a header beyond 8 KiB: websockets has made the refusal,
            # but uvicorn waits for a handshake that it can hand over.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_ping(self) -> None:
        pong = b"".join(self.conn.data_to_send())
        # To a client that doesn't read, pongs would pile up; RFC 6455 §5.5.3 wants one for the latest ping only.
        if self.writable.is_set():
            self.transport.write(pong)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # A handshake that was refused has no scope; one that was not begins its task after this call.
        if self.response.status_code == 101:
            self.scope["state"]["abort"] = self.transport.abort
