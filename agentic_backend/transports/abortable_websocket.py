"""uvicorn's WebSocket protocol, with a way to drop a connection whose client doesn't read.

To such a client `close` waits as long as `send` does, and an ASGI scope holds no transport: so the transport's `abort`
is put into the scope's state.
"""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request


class AbortableWebSocket(WebSocketsSansIOProtocol):
    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # A handshake that was refused has no scope; one that was not begins its task after this call.
        if self.response.status_code == 101:
            self.scope["state"]["abort"] = self.transport.abort
