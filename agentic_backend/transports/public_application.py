"""The public listener's application: the WebSocket, the REST calls and the chat page, behind the gate."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from agentic_backend.kpi import Kpi
from agentic_backend.transports.chatbot_controller import PATH, ChatbotController
from agentic_backend.transports.gate import Gate
from agentic_backend.transports.rest_errors import EXCEPTION_HANDLERS

_WEB = Path(__file__).parent.parent / "web"


def public_application(
    controller: ChatbotController,
    calls: Iterable[Route],
    *,
    tokens_from: str | None,
    origins: Collection[str],
    hosts: Collection[str],
    is_draining: Callable[[], bool],
    kpi: Kpi,
    secrets: Collection[str],
) -> ASGIApp:
    async def page(request: Request) -> Response:
        return FileResponse(_WEB / "index.html", headers={"cache-control": "no-cache"})

    application = Starlette(
        routes=[
            Route("/", page),
            Mount("/static", _PageFiles(directory=_WEB)),
            WebSocketRoute(PATH, controller.endpoint),
            *calls,
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    # For the handlers of errors.
    application.state.secrets = secrets
    # A path with another slash is another path: behind a proxy a redirect would name the wrong address.
    application.router.redirect_slashes = False
    # Outside Starlette: its error middleware sends responses that a middleware inside would not see.
    return Gate(application, origins=origins, hosts=hosts, tokens_from=tokens_from, is_draining=is_draining, kpi=kpi)


class _PageFiles(StaticFiles):
    """The page's modules have no version in their names, so the browser revalidates them; most answers are 304."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers.setdefault("cache-control", "no-cache")
        return response
