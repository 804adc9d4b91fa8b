"""A small HTTP server that answers as model providers do, streamed or whole, over real sockets."""

import asyncio
import contextlib
from array import array
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.server.process import Listener, address_of, bind
from support.providers.completions import Completions
from support.providers.messages import Messages
from support.providers.reply import Asked, Dialect, Reply
from support.providers.responses import Responses

TITLE = "A title from the provider"
# The provider's client keeps its connections for the life of the process, longer than a test.
_CLOSE = {"connection": "close"}


@dataclass
class Received:
    dialect: Dialect
    headers: dict[str, str]
    body: dict[str, Any]
    asked: Asked

    @property
    def wants_title(self) -> bool:
        return "You name conversations." in self.asked.system


@dataclass
class ModelServer:
    """`reply` maps the messages of a request to the answer; requests for a title get TITLE."""

    url: str = ""
    reply: Callable[[list[dict[str, Any]]], Reply] = lambda messages: Reply(f"You said: {messages[-1]['content']}")
    received: list[Received] = field(default_factory=list)
    listed: set[str] | None = None
    """The models that can be looked up; None if the server has no such route."""
    embed: Callable[[list[str]], Reply | list[list[float]] | str] = lambda texts: [[len(text), 1.0] for text in texts]
    """Maps texts to a refusal, to their vectors, or to a whole body."""
    embedded: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of what was asked for vectors."""
    tells_usage: bool = True
    cut: int = 0
    """The number of streams that the client did not read to the end."""

    @property
    def asked(self) -> list[Received]:
        """The requests without those for a title."""
        return [request for request in self.received if not request.wants_title]

    async def look_up(self, request: Request) -> Response:
        name = request.path_params["name"]
        if self.listed is None or name not in self.listed:
            return JSONResponse({"error": {"message": "not found", "code": "model_not_found"}}, 404, _CLOSE)
        return JSONResponse({"id": name, "object": "model", "created": 0, "owned_by": "tests"}, headers=_CLOSE)

    async def answer_embedding(self, request: Request) -> Response:
        """OpenAI's embeddings."""
        body = await request.json()
        self.embedded.append(body)
        texts = body["input"]
        found = self.embed(texts)
        if isinstance(found, Reply):
            await asyncio.sleep(found.late_s)
            if found.cut_after == 0:
                request.scope["state"]["abort"]()
            told = f"Refused {request.headers.get('authorization')}: {texts[0]}"
            refusal = found.refusal or {"error": {"message": told, "type": "test"}}
            return JSONResponse(refusal, found.status, _CLOSE | found.headers)
        if isinstance(found, str):
            return Response(found, headers=_CLOSE, media_type="application/json")
        data = [
            {"object": "embedding", "index": place, "embedding": _encoded(vector, body.get("encoding_format"))}
            for place, vector in enumerate(found)
        ]
        answer: dict[str, Any] = {"object": "list", "data": data, "model": body["model"]}
        if self.tells_usage:
            answer["usage"] = {"prompt_tokens": len(texts) * 3, "total_tokens": len(texts) * 3}
        return JSONResponse(answer, headers=_CLOSE)

    async def answer(self, dialect: Dialect, request: Request) -> Response:
        body = await request.json()
        received = Received(dialect, dict(request.headers), body, dialect.asked(body))
        self.received.append(received)
        messages = received.asked.messages
        reply = Reply(TITLE) if received.wants_title else self.reply(messages)
        await asyncio.sleep(reply.late_s)
        if reply.hang_after == 0:
            while not await request.is_disconnected():
                await asyncio.sleep(0.01)
        if reply.cut_after == 0:
            request.scope["state"]["abort"]()
        if reply.status != 200:
            # Providers quote the refused key and the request.
            told = f"Refused {request.headers.get('authorization')}: {messages[-1]['content']}"
            return JSONResponse(reply.refusal or dialect.refusal(told), reply.status, _CLOSE | reply.headers)
        if body.get("stream"):
            return _Streamed(self, reply, dialect)
        return JSONResponse(dialect.whole(reply), headers=_CLOSE)


def _encoded(vector: list[float], form: str | None) -> str | list[float]:
    return b64encode(array("f", vector).tobytes()).decode() if form == "base64" else vector


class _Streamed(StreamingResponse):
    """A streamed reply, which counts as cut if its client disconnects before the end."""

    def __init__(self, server: ModelServer, reply: Reply, dialect: Dialect) -> None:
        super().__init__(self._writes(reply, dialect), headers=_CLOSE, media_type="text/event-stream")
        self._server = server
        self._ended = False
        self._abort: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._abort = scope["state"]["abort"]
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._server.cut += not self._ended

    async def _writes(self, reply: Reply, dialect: Dialect) -> AsyncIterator[str]:
        # The first write contains no word.
        cut_after = reply.cut_before_words if reply.cut_after is None else reply.cut_after + 1
        if cut_after == 0:
            yield ": the head goes out with it\n\n"
            self._abort()
        writes = 0
        async for write in dialect.writes(reply):
            yield write
            writes += 1
            if writes == cut_after:
                self._abort()
        self._ended = True


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    server = ModelServer()
    bound = bind("127.0.0.1", 0)
    server.url = address_of(bound)
    dialects: list[Dialect] = [Completions(), Responses(), Messages()]
    routes = [Route(dialect.path, partial(server.answer, dialect), methods=["POST"]) for dialect in dialects]
    routes.append(Route("/v1/models/{name}", server.look_up))
    routes.append(Route("/v1/embeddings", server.answer_embedding, methods=["POST"]))
    listener = Listener(Starlette(routes=routes), bound, LimitsSettings())
    # An answer that hangs never ends by itself: it is given this time, in seconds.
    listener.config.timeout_graceful_shutdown = 1
    listening = asyncio.create_task(listener.listen())
    try:
        yield server
    finally:
        listener.close()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        bound.close()
