"""A small HTTP server that speaks OpenAI's chat completions, streamed and whole, over real sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentic_backend.server import Listener, address_of, bind
from agentic_backend.settings import LimitsSettings

MODEL = "gpt-of-the-tests"
TITLE = "A title from the provider"
# The provider's client keeps its connections for the life of the process; a test's end is sooner.
_CLOSE = {"connection": "close"}


@dataclass
class Reply:
    """What a request is answered with; `hang_after` words it falls silent, `cut_after` words its connection breaks.

    `cut_before_words` has it broken once the response has begun: after so many events, the first of which has no word.
    """

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    pause_s: float = 0.0
    hang_after: int | None = None
    cut_after: int | None = None
    cut_before_words: int | None = None


def calls(**arguments: dict[str, Any]) -> Reply:
    """A reply that calls each tool with its arguments."""
    return Reply(calls=[{"name": name, "arguments": json.dumps(args)} for name, args in arguments.items()])


@dataclass
class Received:
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class OpenAiServer:
    """`reply` decides on the messages of a request; requests for a title are answered by themselves."""

    url: str = ""
    reply: Callable[[list[dict[str, Any]]], Reply] = lambda messages: Reply(f"You said: {messages[-1]['content']}")
    received: list[Received] = field(default_factory=list)
    cut: int = 0
    """Streams that the client did not read to their end."""

    @property
    def asked(self) -> list[Received]:
        """The requests that were not for a title."""
        return [request for request in self.received if not _wants_title(request.body)]

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.received.append(Received(dict(request.headers), body))
        reply = Reply(TITLE) if _wants_title(body) else self.reply(body["messages"])
        if reply.hang_after == 0:
            while not await request.is_disconnected():
                await asyncio.sleep(0.01)
        if reply.cut_after == 0:
            request.scope["state"]["abort"]()
        if reply.status != 200:
            # Providers quote the key that they refuse, and what was asked.
            told = f"Refused {request.headers.get('authorization')}: {body['messages'][-1]['content']}"
            return JSONResponse({"error": {"message": told, "type": "test"}}, reply.status, _CLOSE)
        if body.get("stream"):
            return _Streamed(self, reply)
        message = {"role": "assistant", "content": reply.text}
        return JSONResponse(_envelope("chat.completion", message=message, finish_reason="stop"), headers=_CLOSE)


class _Streamed(StreamingResponse):
    """A streamed reply, which is counted as cut where its client goes before its end."""

    def __init__(self, server: OpenAiServer, reply: Reply) -> None:
        super().__init__(self._events(reply), headers=_CLOSE, media_type="text/event-stream")
        self._server = server
        self._ended = False
        self._abort: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._abort = scope["state"]["abort"]
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._server.cut += not self._ended

    async def _events(self, reply: Reply) -> AsyncIterator[str]:
        cut_after = reply.cut_before_words
        if reply.cut_after is not None:
            # The first event has no word yet.
            cut_after = reply.cut_after + 1
        events = 0
        if cut_after == 0:
            yield ": the head goes out with it\n\n"
            self._abort()
        async for event in _events(reply):
            yield event
            events += 1
            if events == cut_after:
                self._abort()
        self._ended = True


@asynccontextmanager
async def openai_server() -> AsyncIterator[OpenAiServer]:
    server = OpenAiServer()
    bound = bind("127.0.0.1", 0)
    server.url = f"{address_of(bound)}/v1"
    application = Starlette(routes=[Route("/v1/chat/completions", server.complete, methods=["POST"])])
    listener = Listener(application, bound, LimitsSettings())
    listening = asyncio.create_task(listener.listen())
    try:
        yield server
    finally:
        listener.close()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        bound.close()


def _wants_title(body: dict[str, Any]) -> bool:
    return str(body["messages"][0]["content"]).startswith("You name conversations.")


async def _events(reply: Reply) -> AsyncIterator[str]:
    yield _event(delta={"role": "assistant", "content": ""}, finish_reason=None)
    for place, word in enumerate(reply.text.split(" ")):
        if reply.hang_after == place:
            await asyncio.Event().wait()
        await asyncio.sleep(reply.pause_s)
        yield _event(delta={"content": word if place == 0 else f" {word}"}, finish_reason=None)
    for index, call in enumerate(reply.calls):
        name, arguments = call["name"], call["arguments"]
        begun = {"index": index, "id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": ""}}
        yield _event(delta={"tool_calls": [begun]}, finish_reason=None)
        for half in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield _event(delta={"tool_calls": [{"index": index, "function": {"arguments": half}}]}, finish_reason=None)
    yield _event(delta={}, finish_reason="tool_calls" if reply.calls else "stop")
    yield "data: [DONE]\n\n"


def _event(**choice: Any) -> str:
    return f"data: {json.dumps(_envelope('chat.completion.chunk', **choice))}\n\n"


def _envelope(kind: str, **choice: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, **choice}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12} if choice["finish_reason"] else None,
    }
