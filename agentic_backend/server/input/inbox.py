"""Inbox: the messages of one WebSocket for its application, in order.

It stands in for uvicorn's asyncio.Queue, whose deques take 3 KiB also while nothing waits.
"""

import asyncio

from uvicorn._types import ASGIReceiveEvent


class Inbox:
    """One task reads it. It stays short: the client is not read from while a message waits."""

    __slots__ = ("_messages", "_reader")

    def __init__(self) -> None:
        self._messages: list[ASGIReceiveEvent] = []
        # Done when a message is there; None while nobody waits.
        self._reader: asyncio.Future[None] | None = None

    def put_nowait(self, message: ASGIReceiveEvent) -> None:
        self._messages.append(message)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> ASGIReceiveEvent:
        """The next message. No timeout: a client may be silent as long as it answers the pings."""
        while not self._messages:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._messages.pop(0)

    def empty(self) -> bool:
        return not self._messages
