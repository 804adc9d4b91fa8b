"""The internal listener's application: metrics, health and the latest log lines, not for clients.

It runs in the thread of that listener, see server/internal_listener. Where workers share a port, it is asked by the
joint one, see joint_application, which needs the metrics in a form that can be merged.
"""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentic_backend.kpi import Kpi
from agentic_backend.telemetry import LogTail
from agentic_backend.transports.gate.upgrades import no_such_path
from agentic_backend.transports.probes.readiness import READY, Liveness, Readiness
from agentic_backend.transports.rest.rest_errors import EXCEPTION_HANDLERS

SNAPSHOT = "/metrics/snapshot"
"""The path of the metrics in the form of `Snapshot`."""

Endpoint = Callable[[Request], Awaitable[Response]]


def internal_application(kpi: Kpi, liveness: Liveness, readiness: Readiness, log_tail: LogTail) -> Starlette:
    async def metrics(request: Request) -> Response:
        exposition, content_type = kpi.exposition(request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    async def snapshot(request: Request) -> Response:
        return Response(kpi.snapshot().encode(), media_type="application/json")

    async def live(request: Request) -> Response:
        return health_response(liveness.status())

    async def ready(request: Request) -> Response:
        return health_response(await readiness.status_from_elsewhere())

    async def log(request: Request) -> Response:
        return PlainTextResponse(log_tail.text())

    return application_of(metrics, live, ready, log, Route(SNAPSHOT, snapshot))


def application_of(metrics: Endpoint, live: Endpoint, ready: Endpoint, log: Endpoint, *more: Route) -> Starlette:
    """The application of an internal listener, with the paths that operators know."""
    routes = [
        Route("/metrics", metrics),
        Route("/health/live", live),
        Route("/health/ready", ready),
        Route("/log", log),
    ]
    application = Starlette(routes=[*routes, *more], exception_handlers=EXCEPTION_HANDLERS)
    # A path with another slash is another path: behind a proxy a redirect would name the wrong address.
    application.router.redirect_slashes = False
    application.router.default = no_such_path
    return application


def health_response(status: str) -> Response:
    """The answer to a probe: 503 unless the status is READY."""
    return JSONResponse({"status": status}, 200 if status == READY else 503)
