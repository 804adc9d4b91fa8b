"""A slow TCP relay to a database that drops connections: some before a request, some before its answer."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from support.tcp_line import End, TcpLine, listening

_CHUNK = 65_536


class LossyLine(TcpLine):
    """Loses each request and each answer with probability `share`, together with its connection.

    `lost_requests` and `lost_answers` count them; every answer is delayed by `late_s`.
    """

    def __init__(self, seed: int, late_s: float) -> None:
        super().__init__()
        self.share = 0.0
        self.lost_requests = 0
        self.lost_answers = 0
        self._late_s = late_s
        self._choice = random.Random(seed)

    async def pass_on(self, client: End, server: End, swallows: Callable[[], bool]) -> None:
        """Forward requests and answers until one is lost or an end closes."""
        requests = asyncio.create_task(self._requests(client[0], server[1]))
        answers = asyncio.create_task(self._answers(server[0], client[1]))
        await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
        for task in (requests, answers):
            task.cancel()
        await asyncio.gather(requests, answers, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if self._choice.random() < self.share:
                self.lost_requests += 1
                return
            writer.write(data)
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if self._choice.random() < self.share:
                self.lost_answers += 1
                return
            await asyncio.sleep(self._late_s)
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def lossy_line(seed: int, late_s: float) -> AsyncIterator[LossyLine]:
    async with listening(LossyLine(seed, late_s)) as line:
        yield line
