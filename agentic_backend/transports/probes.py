"""The internal listener's application: metrics, health and the latest log lines, not for clients.

It runs in the thread of that listener, see server/internal_listener.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentic_backend.kpi import Kpi
from agentic_backend.telemetry import LogTail
from agentic_backend.transports.readiness import READY, Liveness, Readiness
from agentic_backend.transports.rest_errors import EXCEPTION_HANDLERS


def internal_application(kpi: Kpi, liveness: Liveness, readiness: Readiness, log_tail: LogTail) -> Starlette:
    async def metrics(request: Request) -> Response:
        exposition, content_type = kpi.exposition(request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    async def live(request: Request) -> Response:
        return _health(liveness.status())

    async def ready(request: Request) -> Response:
        return _health(await readiness.status_from_elsewhere())

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


def _health(status: str) -> Response:
    return JSONResponse({"status": status}, 200 if status == READY else 503)
