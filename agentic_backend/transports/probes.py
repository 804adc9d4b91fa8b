"""The internal listener's application: metrics, health and the latest log lines, not for clients."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentic_backend.kpi import Kpi
from agentic_backend.telemetry import LogTail
from agentic_backend.transports.readiness import READY, Readiness
from agentic_backend.transports.rest_errors import EXCEPTION_HANDLERS


def internal_application(kpi: Kpi, readiness: Readiness, log_tail: LogTail) -> Starlette:
    async def metrics(request: Request) -> Response:
        exposition, content_type = await asyncio.to_thread(kpi.exposition, request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        status = await readiness.status()
        return JSONResponse({"status": status}, 200 if status == READY else 503)

    async def log(request: Request) -> Response:
        return PlainTextResponse(log_tail.text())

    application = Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/health/live", live),
            Route("/health/ready", ready),
            Route("/log", log),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    # A path with another slash is another path: behind a proxy a redirect would name the wrong address.
    application.router.redirect_slashes = False
    return application
