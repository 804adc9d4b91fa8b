"""A server of one's own that speaks to a chat client byte by byte, in ways that no honest server does."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

Behaviour = Callable[["HostileSocket"], Awaitable[None]]


class HostileSocket:
    """One connection of the client. `headers` are those of its handshake."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket
        assert socket.request is not None
        self.headers = socket.request.headers

    async def frame(self, kind: str) -> dict[str, Any]:
        """The client's next frame of this type; pings before it are answered."""
        while True:
            frame: dict[str, Any] = json.loads(await self._socket.recv())
            if frame["type"] == kind:
                return frame
            if frame["type"] == "ping":
                await self.send({"type": "pong"})

    async def send(self, event: object) -> None:
        await self.send_raw(json.dumps(event))

    async def send_raw(self, data: str | bytes) -> None:
        await self._socket.send(data)

    async def close(self, code: int) -> None:
        await self._socket.close(code)

    async def silent(self) -> None:
        """Answer nothing until the client is gone."""
        await self._socket.wait_closed()

    async def gone(self) -> None:
        """Answer pings until the client is gone."""
        async for data in self._socket:
            if json.loads(data)["type"] == "ping":
                await self.send({"type": "pong"})


@asynccontextmanager
async def hostile_server(behaviour: Behaviour, subprotocol: str = "chat.v2") -> AsyncIterator[str]:
    """The address of a server that treats each connection to `behaviour`."""

    async def treat(socket: ServerConnection) -> None:
        await behaviour(HostileSocket(socket))

    async with serve(treat, "127.0.0.1", 0, subprotocols=[Subprotocol(subprotocol)], max_size=None) as server:
        [listener] = server.sockets
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
