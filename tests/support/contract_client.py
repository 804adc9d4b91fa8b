"""A client that implements only docs/protocol.md: it shows an exchange and continues after a disconnect.

It follows the section "How a client follows an exchange" literally, on a plain WebSocket. A `simple` client drops every
event with a seq that it has seen, even a `reset`.
"""

import asyncio
import json
from typing import Any

from websockets.asyncio.client import connect

_PATH = "/agentic/v1/chatbot/query/ws"


class ContractClient:
    """`messages` holds messages by rank, `written` the text of open blocks."""

    def __init__(self, user: str, *, simple: bool = False) -> None:
        self.exchange_id: str | None = None
        self.session_id: str | None = None
        self.seq = 0
        self.messages: dict[int, dict[str, Any]] = {}
        self.written: dict[int, str] = {}
        self.awaiting: dict[str, Any] | None = None
        self.final: dict[str, Any] | None = None
        self.resets = self.lower = 0
        """The number of resets, and of those with a lower seq than one already seen."""
        self._user = user
        self._simple = simple

    async def visit(self, address: str, first_frame: dict[str, Any], for_s: float) -> None:
        """Send a frame to the server at `address`, and read its events for `for_s` seconds or until the end."""
        headers = {"Authorization": f"Bearer dev:{self._user}"}
        url = address.replace("http", "ws", 1) + _PATH
        async with connect(url, subprotocols=["chat.v2"], additional_headers=headers, max_size=None) as socket:  # type: ignore[list-item]
            await socket.send(json.dumps(first_frame))
            try:
                async with asyncio.timeout(for_s):
                    while self.final is None:
                        self.take(json.loads(await socket.recv()))
            except TimeoutError:
                # Drop the connection without a close frame, as a network failure does.
                socket.transport.abort()

    async def go_on(self, address: str, for_s: float) -> None:
        """Continue to follow its exchange, at any server."""
        await self.visit(address, {"type": "follow", "exchange_id": self.exchange_id, "after_seq": self.seq}, for_s)

    def take(self, event: dict[str, Any]) -> None:
        assert "refused" not in event, event
        if "seq" not in event or event.get("exchange_id") != (self.exchange_id or event.get("exchange_id")):
            return
        counts = event["type"] in ("started", "reset") and not self._simple
        if event["type"] == "reset":
            self.resets += 1
            self.lower += event["seq"] < self.seq
        if event["seq"] <= self.seq and not counts:
            return
        self.exchange_id, self.session_id, self.seq = event["exchange_id"], event["session_id"], event["seq"]
        self._show(event)

    def _show(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "started":
                self.messages, self.written, self.awaiting = {}, {}, None
            case "reset":
                self.messages = {message["rank"]: message for message in event["messages"]}
                self.written = {partial["block"]: partial["text"] for partial in event["partial"]}
                self.awaiting = None
            case "delta":
                self.written[event["block"]] = self.written.get(event["block"], "") + event["text"]
                self.awaiting = None
            case "stream":
                self.messages[event["message"]["rank"]] = event["message"]
                self.written.pop(event.get("block"), None)
                self.awaiting = None
            case "awaiting_human":
                self.awaiting = event["payload"]
            case "final":
                self.final = event
                self.messages = {message["rank"]: message for message in event["messages"]}
