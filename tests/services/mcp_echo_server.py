"""An MCP server for tests, which answers, remembers, reports, fails, hangs and crashes on demand.

A program: `python mcp_echo_server.py stdio`, or `… streamable_http PORT` or `… sse PORT`, which prints its port. Over
HTTP it accepts only bearer tokens that start with `dev:` or `exchanged`, or JWTs; with `--open` before the port it
accepts any request. A token that names its end, as `dev:NAME:SECONDS` or by its `exp`, is refused from then on.
"""

import asyncio
import base64
import hashlib
import json
import logging
import math
import os
import signal
import socket
import sys
import time
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.session import ServerSession
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import AnyUrl, BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NOISE = "noise on standard error"

server = FastMCP("echo")
Calling = Context[ServerSession, Any, Request]

counters: WeakKeyDictionary[ServerSession, int] = WeakKeyDictionary()
"""The count of each session."""

statuses: list[int] = []
"""The statuses that the next POSTs are answered with."""

cancelled: list[str] = []
"""The tools whose calls were cancelled."""

signals: list[int] = []
"""Those that the process has got: `dawdle` hangs after SIGUSR1, until SIGUSR2."""


def fingerprint(secret: str) -> str:
    """A hash that distinguishes secrets without revealing them."""
    return f"sha256 {hashlib.sha256(secret.encode()).hexdigest()[:16]}"


def _header(context: Calling, name: str) -> str:
    request = context.request_context.request
    return (request.headers.get(name) or "") if request is not None else ""


@server.tool()
def echo(text: str) -> str:
    """Say the text again."""
    return text


@server.tool()
def odd_names(config: str, runtime: str, run_manager: str, callbacks: str, self: str) -> str:
    """Say all arguments again, whose names others may think to be theirs."""
    return " ".join([config, runtime, run_manager, callbacks, self])


@server.tool()
def whoami(context: Calling) -> str:
    """Tell whose bearer token this very request has, without telling the token."""
    token = _header(context, "authorization").removeprefix("Bearer ")
    return fingerprint(token) if token else "nobody"


@server.tool()
def header(name: str, context: Calling) -> str:
    """Tell what a header of this very request holds, without telling it."""
    value = _header(context, name)
    return fingerprint(value) if value else "none"


@server.tool()
def headers(context: Calling) -> str:
    """Tell all headers of this very request, and the server's environment."""
    request = context.request_context.request
    return repr({**(dict(request.headers) if request is not None else {}), **os.environ})


@server.tool()
async def repeat_token(value: str, context: Calling) -> CallToolResult:
    """Tell the bearer token of this very request, or the value of the variable SECRET, in a form called `value`."""
    token = _header(context, "authorization").removeprefix("Bearer ") or os.environ.get("SECRET", "")
    raw = token.encode()
    if value == "error":
        raise ValueError(f"refused {token}")
    if value == "progress":
        await context.report_progress(1, 2, f"as {token}")
    if value == "structured":
        return CallToolResult(content=[_text("beside")], structuredContent={"a": [{token: {"deep": f"<{token}>"}}]})
    if value == "resource":
        resource = TextResourceContents(uri=AnyUrl("demo://a"), text=f"It is {token}.")
        return CallToolResult(content=[EmbeddedResource(type="resource", resource=resource)])
    if value == "link":
        link = ResourceLink(type="resource_link", name=token, uri=AnyUrl(f"https://example.org/?t={quote(token)}"))
        return CallToolResult(content=[link])
    forms = {
        "plain": [f"Bearer {token}"],
        "url": [quote(token, safe="")],
        "base64": [base64.b64encode(b"x" * shift + raw).decode() for shift in range(3)],
        "hex": [raw.hex()],
        "split": ["a" + token[:5], token[5:9], token[9:] + "z"],
    }
    return CallToolResult(content=[_text(text) for text in forms.get(value, ["done"])])


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


@server.tool()
def idempotency_key(context: Calling) -> str:
    """Tell the idempotency key of this very request."""
    meta = context.request_context.meta
    return str((meta.model_extra or {}).get("agentic-backend/idempotency-key")) if meta is not None else "none"


@server.tool()
def call_ids(context: Calling) -> str:
    """Tell, as JSON, the ids of the call and of its trace in the headers and the `_meta` of this very request."""
    names, meta = ("x-request-id", "traceparent"), context.request_context.meta
    said = (meta.model_extra or {}) if meta is not None else {}
    return json.dumps([{name: _header(context, name) for name in names}, {name: said.get(name) for name in names}])


@server.tool()
def environment() -> list[str]:
    """Tell the names of the variables in the server's environment."""
    return sorted(os.environ)


@server.tool()
def process_id() -> str:
    """Tell the id of the server's process."""
    return str(os.getpid())


@server.tool()
def count(context: Calling) -> str:
    """Count up, for this session alone."""
    counters[context.session] = counters.get(context.session, 0) + 1
    return str(counters[context.session])


@server.tool()
async def report(steps: int, context: Calling) -> str:
    """Report progress in steps."""
    for step in range(1, steps + 1):
        await context.report_progress(step, steps, f"step {step}")
    return "reported"


@server.tool()
def fail(text: str) -> str:
    """Fail with this text."""
    raise ValueError(text)


@server.tool()
async def hang() -> str:
    """Never come back, unless the call is cancelled."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.append("hang")
        raise
    return "never"


@server.tool()
async def dawdle() -> str:
    """Come back at once, unless a signal has told the process to hang."""
    while signals and signals[-1] == signal.SIGUSR1:
        await asyncio.sleep(0.05)
    return "done"


@server.tool()
def cancellations() -> str:
    """Tell how many calls were cancelled."""
    return str(len(cancelled))


@server.tool()
def block() -> str:
    """Do nothing else for a minute, not even listen."""
    time.sleep(60)
    return "done"


@server.tool()
def crash() -> str:
    """End the server's process at once."""
    os._exit(1)


@server.tool()
def refuse_next(status: int) -> str:
    """Answer the next POST with this status."""
    statuses.append(status)
    return "agreed"


@server.tool()
async def refuse_a_pong(status: int, context: Calling) -> str:
    """Ping the client, and answer the POST of its answer with this status."""
    statuses.append(status)
    try:
        async with asyncio.timeout(1):
            await context.session.send_ping()
    except TimeoutError:
        return "no answer" if not statuses else "no POST"
    return "answered"


@server.tool()
def noise(text: str) -> str:
    """Write the text to standard error."""
    print(NOISE, text, file=sys.stderr, flush=True)
    return "written"


@server.tool()
def picture() -> CallToolResult:
    """Show a picture of one pixel, and a link."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="one pixel"),
            ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mimeType="image/png"),
            ResourceLink(type="resource_link", name="pixels", uri=AnyUrl("https://example.org/pixels")),
        ]
    )


@server.tool()
def sound() -> CallToolResult:
    """Give a sound between two texts."""
    data = base64.b64encode(bytes(6)).decode()
    return CallToolResult(
        content=[_text("listen"), AudioContent(type="audio", data=data, mimeType="audio/wav"), _text("done")]
    )


@server.tool()
def large_picture(size: int) -> CallToolResult:
    """Show a picture of so many bytes."""
    data = base64.b64encode(bytes(size)).decode()
    return CallToolResult(content=[ImageContent(type="image", data=data, mimeType="image/png")])


@server.tool(title="Weather of a city")
def structured() -> CallToolResult:
    """Give a structured result beside a text that says something else."""
    return CallToolResult(
        content=[TextContent(type="text", text="mild")], structuredContent={"degrees": 21, "city": "Oslo"}
    )


class _Answer(BaseModel):
    text: str


@server.tool()
async def ask_the_user(context: Calling) -> str:
    """Ask the user something, which a client need not allow."""
    try:
        await context.elicit("What is it?", schema=_Answer)
    except Exception as error:
        return f"refused: {error}"
    return "answered"


class _Refusing:
    """Answers POSTs with the `statuses`."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and statuses:
            await PlainTextResponse("refused", statuses.pop(0))(scope, receive, send)
            return
        await self._application(scope, receive, send)


class _TokensOnly:
    """Answers 401 to a request without a token of a known form, or with one that is over, or says so."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            token = Request(scope).headers.get("authorization", "").removeprefix("Bearer ")
            if not token.startswith(("dev:", "exchanged", "ey")) or "over" in token or _end(token) <= time.time():
                await PlainTextResponse("a token is needed", 401)(scope, receive, send)
                return
        await self._application(scope, receive, send)


def _end(token: str) -> float:
    """When the token ends, in Unix seconds. Short numbers are no times: they tell tokens apart."""
    if token.startswith("ey"):
        claims = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    seconds = token.rpartition(":")[2]
    return float(seconds) if seconds.isdigit() and len(seconds) > 8 else math.inf


def main(transport: str, *options: str) -> None:
    logging.disable()
    for told in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(told, lambda number, frame: signals.append(number))
    if transport == "stdio":
        server.run("stdio")
        return
    application: ASGIApp = server.sse_app() if transport == "sse" else server.streamable_http_app()
    application = _Refusing(application)
    if "--open" not in options:
        application = _TokensOnly(application)
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", int(options[-1])))
    bound.listen()
    print(bound.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(application, timeout_graceful_shutdown=1)).run(sockets=[bound])


if __name__ == "__main__":
    main(*sys.argv[1:])
