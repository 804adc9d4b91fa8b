"""An HTTP API of the tests' own, with an OpenAPI document: on a real socket, in the test's loop. It also misbehaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

TEXT: dict[str, Any] = {"type": "string"}


def _parameter(name: str, place: str, schema: dict[str, Any] = TEXT, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, "required": required or place == "path"}


DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "CRM", "version": "1"},
    "paths": {
        "/customers/{id}": {
            "parameters": [_parameter("id", "path")],
            "get": {
                "operationId": "getCustomer",
                "summary": "Find a customer",
                "parameters": [
                    _parameter("fields", "query", {"type": "array", "items": TEXT}),
                    _parameter("X-Tenant", "header"),
                    _parameter("Authorization", "header"),
                    _parameter("X-Key", "header"),
                ],
            },
            "delete": {"operationId": "deleteCustomer"},
        },
        "/notes": {
            "get": {"operationId": "listNotes"},
            "post": {
                "operationId": "addNote",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Note"}}},
                },
            },
        },
        "/answers/{kind}": {"get": {"operationId": "getAnswer", "parameters": [_parameter("kind", "path")]}},
        "/whoami": {"get": {}},
        "/upload": {"post": {"operationId": "upload", "requestBody": {"required": True, "content": {"image/png": {}}}}},
    },
    "components": {
        "schemas": {
            "Note": {
                "type": "object",
                "required": ["text"],
                "properties": {
                    "text": {"type": "string", "maxLength": 20},
                    "about": {"type": "string", "nullable": True},
                    "replies": {"type": "array", "items": {"$ref": "#/components/schemas/Note"}},
                },
            }
        }
    },
}


@dataclass
class HttpApi:
    url: str = ""
    refused: set[str] = field(default_factory=set)
    """Values of the header Authorization that get 401."""
    seen: list[dict[str, Any]] = field(default_factory=list)
    """The requests, in their order."""

    def settings(self, document: str | Path, **more: Any) -> dict[str, Any]:
        return {"document": str(document), "base_url": f"{self.url}/v1", **more}


@asynccontextmanager
async def http_api() -> AsyncIterator[HttpApi]:
    api = HttpApi()
    server = uvicorn.Server(uvicorn.Config(_app(api), port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    api.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        server.should_exit = True
        # One that is still answering is not waited for.
        server.force_exit = True
        await serving


def _app(api: HttpApi) -> Starlette:
    async def any_call(request: Request) -> Response:
        told = request.headers.get("authorization", "")
        body = (await request.body()).decode()
        call = {"method": request.method, "path": request.scope["raw_path"].decode(), "query": str(request.url.query)}
        api.seen.append({**call, "headers": dict(request.headers), "body": body})
        if told in api.refused:
            return StreamingResponse(_endless(), 401, media_type="text/plain")
        if request.url.path == "/v1/whoami":
            return PlainTextResponse(f"You sent {told!r} and {request.headers.get('x-key')!r}.")
        return JSONResponse({**call, "body": json.loads(body) if body else None})

    async def document(request: Request) -> Response:
        return JSONResponse(DOCUMENT)

    methods = ["GET", "POST", "DELETE"]
    return Starlette(
        routes=[
            Route("/openapi.json", document),
            Route("/v1/answers/{kind}", _answer),
            Route("/{path:path}", any_call, methods=methods),
        ]
    )


_ANSWERS: dict[str, Callable[[], Response]] = {
    "huge": lambda: PlainTextResponse("x" * 1_000_000),
    "endless": lambda: StreamingResponse(_endless(), media_type="text/plain"),
    "elsewhere": lambda: RedirectResponse("http://169.254.169.254/latest/meta-data"),
    "missing": lambda: JSONResponse({"detail": "There is no such thing."}, 404),
    "image": lambda: Response(b"\x89PNG", media_type="image/png"),
    "bomb": lambda: Response(b"\x1f\x8b" + bytes(100), 200, {"content-encoding": "gzip"}, "text/plain"),
    "nothing": lambda: Response(status_code=204),
    "broken": lambda: Response(b"\xff\xfe broken", media_type="text/plain; charset=nonsense"),
    "undefined": lambda: Response(b"an answer", media_type="text/plain; charset=undefined"),
    "punycode": lambda: Response(b"a" * 4_000 + b" slow", media_type="text/plain; charset=punycode"),
    "japanese": lambda: Response("\u6771\u4eac".encode("shift_jis"), media_type="text/plain; charset=Shift_JIS"),
}


async def _answer(request: Request) -> Response:
    kind = request.path_params["kind"]
    if kind == "slow":
        await asyncio.sleep(60)
    return _ANSWERS[kind]()


async def _endless() -> AsyncIterator[bytes]:
    while True:
        yield b"y" * 65_536
        await asyncio.sleep(0)
