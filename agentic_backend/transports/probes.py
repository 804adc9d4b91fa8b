"""The internal listener: metrics, health and the latest lines of the log, for the inside only."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentic_backend.auth.user import Authenticator
from agentic_backend.errors import AgenticError
from agentic_backend.kpi import Kpi
from agentic_backend.log_tail import LogTail
from agentic_backend.sessions.relay import Relay
from agentic_backend.stores.base import Store


def internal_application(
    kpi: Kpi, store: Store, relay: Relay, authenticator: Authenticator, log_tail: LogTail
) -> Starlette:
    async def metrics(request: Request) -> Response:
        exposition, content_type = await asyncio.to_thread(kpi.exposition, request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        """Ready for asks: the store answers, tokens can be checked, and the server is not going down."""
        if relay.draining:
            return JSONResponse({"status": "shutting_down"}, 503)
        try:
            await store.get_exchange("readiness")
        except AgenticError as error:
            return JSONResponse({"status": error.code}, 503)
        if not authenticator.ready:
            return JSONResponse({"status": "auth_unavailable"}, 503)
        return JSONResponse({"status": "ok"})

    async def log(request: Request) -> Response:
        return PlainTextResponse(log_tail.text())

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/health/live", live),
            Route("/health/ready", ready),
            Route("/log", log),
        ]
    )
