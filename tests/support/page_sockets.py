"""The sockets of the chat page, which a test can watch, hold back, refuse and close as a server would."""

import asyncio
import json
from typing import Any

from playwright.async_api import WebSocket, WebSocketRoute

from support.chat_client import PATIENCE_S
from support.chat_page import ChatPage


class Sockets:
    """The sockets that the page opens from its next load on, which the test can close as a server would."""

    def __init__(self) -> None:
        self.routes: list[WebSocketRoute] = []
        self._may_open = asyncio.Event()
        self._may_open.set()

    @property
    def opened(self) -> int:
        return len(self.routes)

    async def watch(self, page: ChatPage) -> None:
        """On a clock that the test can put forward."""
        await page.tab.route_web_socket("**/ws", self.relay)
        await page.tab.clock.install()
        await page.tab.reload()
        await page.asked("my name is Zorblax")

    async def close(self, code: int) -> None:
        await self.routes[-1].close(code=code)

    def hold(self) -> None:
        """Keep the next ones from opening until `release`, so that the test sees the page without a socket."""
        self._may_open.clear()

    def release(self) -> None:
        self._may_open.set()

    async def relay(self, route: WebSocketRoute) -> None:
        self.routes.append(route)
        await self._may_open.wait()
        route.connect_to_server()


class HeldAnswers(Sockets):
    """What the server says is held back while `pass_on` is not set, but for its pongs."""

    def __init__(self) -> None:
        super().__init__()
        self.pass_on = asyncio.Event()

    @classmethod
    async def on(cls, page: ChatPage) -> "HeldAnswers":
        """Nothing is held back at first."""
        sockets = cls()
        sockets.pass_on.set()
        await page.tab.route_web_socket("**/ws", sockets.relay)
        await page.tab.reload()
        return sockets

    async def relay(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        async def answer(data: str | bytes) -> None:
            if '"pong"' not in str(data):
                await self.pass_on.wait()
            route.send(data)

        server.on_message(answer)


class Heartbeat:
    """The pings and pongs of a socket of the page."""

    def __init__(self, socket: WebSocket) -> None:
        self.pings = self.pongs = self._answered = 0
        socket.on("framesent", lambda frame: self._count(str(frame)))
        socket.on("framereceived", lambda frame: self._count(str(frame)))

    async def answered(self) -> None:
        """Until there is another ping, and each has its pong."""
        async with asyncio.timeout(PATIENCE_S):
            while self.pings == self._answered or self.pongs < self.pings:
                await asyncio.sleep(0.02)
        self._answered = self.pings

    def _count(self, frame: str) -> None:
        self.pings += '"ping"' in frame
        self.pongs += '"pong"' in frame


class Repeated(Sockets):
    """An ask that the page sends for the second time is held back until `pass_on`: what is kept is kept for long."""

    def __init__(self) -> None:
        super().__init__()
        self.pass_on = asyncio.Event()
        self._asked: set[str] = set()

    @classmethod
    async def on(cls, page: ChatPage) -> "Repeated":
        sockets = cls()
        await page.tab.route_web_socket("**/ws", sockets.relay)
        await page.tab.reload()
        return sockets

    async def relay(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        async def forward(data: str | bytes) -> None:
            name = json.loads(data).get("client_exchange_id")
            if name in self._asked:
                await self.pass_on.wait()
            elif name is not None:
                self._asked.add(name)
            server.send(data)

        route.on_message(forward)


class Draining(Sockets):
    """The first socket that brings an ask is one of a server that goes: it refuses, and closes with 1012."""

    refused = 0

    async def relay(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        async def answer(data: str | bytes) -> None:
            frame = json.loads(data)
            if frame["type"] != self.refuses or self.refused:
                server.send(data)
                return
            self.refused += 1
            _refuse(route, frame, "shutting_down", "The server is going down.")
            await route.close(code=1012)

        route.on_message(answer)
        self.routes.append(route)

    def __init__(self, refuses: str) -> None:
        super().__init__()
        self.refuses = refuses


class WithoutStore(Sockets):
    """The first two follows of the open conversation are refused, as by a server whose store is away for a moment."""

    follows = 0

    async def relay(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def answer(data: str | bytes) -> None:
            frame = json.loads(data)
            self.follows += frame["type"] == "follow"
            if frame["type"] == "follow" and self.follows <= 2:
                _refuse(route, frame, "store_unavailable", "The store is not available; nothing was saved.")
            else:
                server.send(data)

        route.on_message(answer)


def _refuse(route: WebSocketRoute, frame: dict[str, Any], code: str, content: str) -> None:
    echoed = {name: frame.get(name) for name in ("client_exchange_id", "session_id", "exchange_id")}
    error = {"code": code, "content": content, "whose": "external", "retryable": True, "request_id": "r"}
    route.send(json.dumps({"type": "error", "refused": frame["type"], **error, **echoed}))


class Garbling(Sockets):
    """The first frame of this type reaches the server cut off: it can't say what it refuses."""

    def __init__(self, garbles: str) -> None:
        super().__init__()
        self._garbles: str | None = garbles

    @classmethod
    async def on(cls, page: ChatPage, garbles: str) -> None:
        await page.tab.route_web_socket("**/ws", cls(garbles).relay)
        await page.tab.reload()

    async def relay(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def forward(data: str | bytes) -> None:
            if json.loads(data)["type"] == self._garbles:
                self._garbles = None
                data = data[:-1]
            server.send(data)

        route.on_message(forward)
