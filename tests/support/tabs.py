"""Sockets that are read continuously, like browser tabs, and the contract's rules for all events that they receive."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from agentic_backend.protocol import events
from support.chat_client import PATH, PATIENCE_S, Event, is_refusal

MODELS: dict[str, type[events.Event]] = {
    "started": events.Started,
    "stream": events.Stream,
    "delta": events.Delta,
    "activity": events.Activity,
    "awaiting_human": events.AwaitingHuman,
    "final": events.Final,
    "reset": events.Reset,
    "session": events.SessionChanged,
    "idle": events.Idle,
    "pong": events.Pong,
}


class Tab:
    """A user's socket. `lives` has the received lines, one list per connection."""

    def __init__(self, address: str, user: str) -> None:
        self.user = user
        self.lives: list[list[str]] = []
        self.pings = 0
        self.follows = 0
        self.unfollowed = False
        self._url = address.replace("http", "ws", 1) + PATH
        self._socket: ClientConnection
        self._reading: asyncio.Task[None]

    async def open(self) -> None:
        token = {"Authorization": f"Bearer dev:{self.user}"}
        self._socket = await connect(self._url, subprotocols=[Subprotocol("chat.v2")], additional_headers=token)
        self.lives.append([])
        self.pings, self.unfollowed = 0, False
        self._reading = asyncio.create_task(self._read())

    async def send(self, frame: dict[str, Any] | str) -> None:
        self.follows += isinstance(frame, dict) and frame.get("type", "ask") in ("follow", "ask", "stop")
        await self._socket.send(json.dumps(frame) if isinstance(frame, dict) else frame)

    async def heard(self) -> None:
        """Wait until the server has received everything and answered every ping."""
        await self.ping()
        async with asyncio.timeout(PATIENCE_S):
            while sum(line == '{"type":"pong"}' for line in self.lives[-1]) < self.pings:
                await asyncio.sleep(0.005)

    async def ping(self) -> None:
        self.pings += 1
        await self.send({"type": "ping"})

    async def close(self, *, broken: bool = False) -> None:
        if broken:
            self._socket.transport.abort()
        await self._socket.close()
        await self._reading

    @property
    def events(self) -> list[Event]:
        return [json.loads(line) for life in self.lives for line in life]

    async def _read(self) -> None:
        with suppress(ConnectionClosed):
            async for line in self._socket:
                self.lives[-1].append(str(line))


def check_lines(tabs: list[Tab]) -> None:
    """Check every line: its exact form, its order, and that a seq has the same event on all tabs."""
    known: dict[tuple[str, int], Event] = {}
    for tab in tabs:
        back = 0
        for life in tab.lives:
            last: dict[str, int] = {}
            for line in life:
                event = json.loads(line)
                check_form(event)
                if "seq" not in event:
                    continue
                exchange_id, seq = event["exchange_id"], event["seq"]
                back += seq <= last.get(exchange_id, 0)
                last[exchange_id] = seq
                if event["type"] not in ("delta", "reset"):
                    assert known.setdefault((exchange_id, seq), event) == event
        assert back <= tab.follows, "a seq goes back only where somebody asked for it"


def check_form(event: Event) -> None:
    """Check that the event has exactly the fields of its type."""
    if event["type"] == "error":
        model = events.FrameRefused if is_refusal(event) else events.ExchangeError
    else:
        model = MODELS[event["type"]]
    assert json.loads(model.model_validate(event).encode()) == event
