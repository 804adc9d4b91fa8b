"""ClientSocket: what a connection needs of the server's WebSocket once it is accepted."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

SOCKET_IS_CLOSED = (OSError, RuntimeError)
"""What `send` raises if the client has disconnected, or the socket is closed."""


class ClientSocket(Protocol):
    """Its messages are those of ASGI, without the frames and objects that a framework puts around them."""

    async def receive(self) -> MutableMapping[str, Any]:
        """The client's next message, at last `websocket.disconnect`."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether `send` waits for nothing: the client has read enough of what was sent."""
        ...

    async def send(self, message: Any, /) -> None:
        """Send the message, or wait while the client doesn't read. Raises SOCKET_IS_CLOSED.

        Its text may be a fragment: with a true `more`, the next message's text continues it.
        """
        ...

    def admit(self) -> None:
        """Let the client send large messages, and forget its handshake."""
        ...

    def abort(self) -> None:
        """Drop a client that doesn't read."""
        ...


Serving = Callable[[ClientSocket], Awaitable[None]]
"""What the server calls when the application has accepted the socket, and has returned."""


def closing_message(code: int) -> dict[str, Any]:
    return {"type": "websocket.close", "code": code, "reason": ""}
