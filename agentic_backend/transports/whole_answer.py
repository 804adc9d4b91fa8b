"""WholeAnswer: an answer that is sent once what it tells of has ended."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

LISTENS_S = 30.0
"""How long a client that has ended its side of the connection is taken to listen."""

_LOOK_S = 1.0


class WholeAnswer(Response):
    """Holds its `place` among the open connections until it is sent or its client has gone.

    `answer` makes it, and is stopped if the client goes first. Of a client that has ended its side of the connection
    nobody can tell whether it still listens, as nothing is sent to it meanwhile: it gets its answer if that comes soon.
    """

    def __init__(self, answer: Callable[[], Awaitable[Response]], place: AbstractContextManager[object]) -> None:
        super().__init__()
        self._answer = answer
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            has_ended = scope["state"]["has_client_ended"]
            answering, leaving = asyncio.ensure_future(self._answer()), asyncio.create_task(_left(receive, has_ended))
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                if not answering.done():
                    answering.cancel()
                await asyncio.wait({answering, leaving})
            if not answering.cancelled():
                await answering.result()(scope, receive, send)
                return
        await drop_client(scope, receive)


async def drop_client(scope: Scope, receive: Receive) -> None:
    """Drop the client of an answer that is not whole. Returns after the disconnect."""
    scope["state"]["abort"]()
    # uvicorn treats an incomplete response as an error, unless it has seen the disconnect.
    while (await receive())["type"] != "http.disconnect":
        pass


async def _left(receive: Receive, has_ended: Callable[[], bool]) -> None:
    """Return once the client has gone, or has listened long enough after it ended its side."""
    listens_until: float | None = None
    clock = asyncio.get_running_loop().time
    receiving = asyncio.ensure_future(receive())
    try:
        while True:
            done, _ = await asyncio.wait([receiving], timeout=_LOOK_S)
            if done:
                if receiving.result()["type"] == "http.disconnect":
                    return
                receiving = asyncio.ensure_future(receive())
            elif has_ended():
                listens_until = listens_until or clock() + LISTENS_S
                if clock() >= listens_until:
                    return
    finally:
        receiving.cancel()
