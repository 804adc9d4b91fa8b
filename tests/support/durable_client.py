"""A client that follows an exchange to its final, over any number of sockets.

It obeys the contract's close codes. It repeats the ask with the same `client_exchange_id` until it has seen the
exchange start; after that it follows from the last event that it has.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from websockets.exceptions import ConnectionClosed, InvalidHandshake

from support.chat_client import PATIENCE_S, ChatClient, Event, chat, is_refusal
from support.shown_exchange import ShownExchange

LOST, RECONNECT = 1006, (1001, 1011, 1012, 4008)
_BACKOFF_S, _LONGEST_BACKOFF_S = 0.1, 1.0


class Refused(Exception):
    """The server has refused this frame as not retryable."""


class DurableClient:
    """`address` is called for each socket.

    `opened` counts the sockets, `closed` holds their close codes, `refused` the codes of retryable refusals.
    """

    def __init__(self, address: Callable[[], str], user: str = "ann", patience_s: float = 60) -> None:
        self.user = user
        self.shown = ShownExchange()
        self.opened = 0
        self.closed: list[int] = []
        self.refused: list[str] = []
        self._address = address
        self._patience_s = patience_s
        self._client: ChatClient | None = None
        self.asked: dict[str, Any] = {}
        """The last ask, which may be repeated."""

    async def ask(self, message: str, **fields: Any) -> Event:
        """Ask; return the exchange's final."""
        self.asked = {"message": message, "client_exchange_id": uuid4().hex, **fields}
        self.shown = ShownExchange()
        return await self.see_through()

    async def follow(self, exchange_id: str) -> Event:
        """Follow an existing exchange; return its final."""
        self.shown = ShownExchange()
        self.shown.exchange_id = exchange_id
        return await self.see_through()

    async def see_through(self) -> Event:
        """Continue with the last exchange, also after `drop`; return its final."""
        backoff_s = _BACKOFF_S
        async with asyncio.timeout(self._patience_s):
            while self.shown.final is None:
                before = self.shown.seq
                code = await self._one_socket()
                if self.shown.final is not None:
                    break
                self.closed.append(code)
                assert code in (LOST, *RECONNECT), f"closed with {code}, which forbids to come back"
                backoff_s = _BACKOFF_S if self.shown.seq > before else min(2 * backoff_s, _LONGEST_BACKOFF_S)
                await asyncio.sleep(random.uniform(0, backoff_s))
        return self.shown.final

    def drop(self) -> None:
        """Drop the socket, as a network failure does."""
        if self._client is not None:
            self._client.socket.transport.abort()

    async def send(self, frame: dict[str, Any]) -> None:
        """Send a frame on the current socket."""
        assert self._client is not None
        await self._client.send(frame)

    async def _one_socket(self) -> int:
        """Follow until the final or the end of the socket; return the close code."""
        try:
            async with chat(self._address(), token=f"dev:{self.user}", open_timeout=PATIENCE_S) as client:
                self.opened += 1
                self._client = client
                self.shown.reconnect()
                await client.send(self._first_frame())
                while self.shown.final is None:
                    event = await client.receive(self._patience_s)
                    if is_refusal(event):
                        return self._refused(event)
                    if event.get("exchange_id") is not None and "seq" in event:
                        self.shown.apply(event)
                return 1000
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else LOST
        except (OSError, InvalidHandshake, TimeoutError, EOFError):
            return LOST
        finally:
            self._client = None

    def _first_frame(self) -> dict[str, Any]:
        if self.shown.exchange_id is None:
            return {"type": "ask", **self.asked}
        return {"type": "follow", "exchange_id": self.shown.exchange_id, "after_seq": self.shown.seq}

    def _refused(self, event: Event) -> int:
        self.refused.append(event["code"])
        if not event["retryable"]:
            raise Refused(event)
        # Another instance may accept the frame, so leave this socket.
        return LOST
