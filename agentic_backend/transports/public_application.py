"""The public listener's application: the WebSocket, the REST calls and the chat page, behind the gate."""

from collections.abc import Callable, Collection, Iterable

from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from agentic_backend.kpi import Kpi
from agentic_backend.transports.documents import document_route
from agentic_backend.transports.gate.answer_counter import AnswerCounter
from agentic_backend.transports.gate.call_ids import CallIds
from agentic_backend.transports.gate.gate import Gate
from agentic_backend.transports.gate.upgrades import UpgradeRequired, no_such_path
from agentic_backend.transports.page.page import Page
from agentic_backend.transports.rest.rest_errors import EXCEPTION_HANDLERS
from agentic_backend.transports.socket.chatbot_controller import ChatbotController
from agentic_backend.transports.socket.connection import PATH


def public_application(
    controller: ChatbotController,
    calls: Iterable[Route],
    page: Page,
    *,
    tokens_from: str | None,
    origins: Collection[str],
    hosts: Collection[str],
    is_draining: Callable[[], bool],
    kpi: Kpi,
    secrets: Collection[str],
    sample_ratio: float,
) -> ASGIApp:
    application = Starlette(
        routes=[
            *page.routes(),
            document_route(),
            WebSocketRoute(PATH, controller.endpoint),
            Route(PATH, UpgradeRequired()),
            *calls,
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    # For the handlers of errors.
    application.state.secrets, application.state.kpi = secrets, kpi
    # A path with another slash is another path: behind a proxy a redirect would name the wrong address.
    application.router.redirect_slashes = False
    application.router.default = no_such_path
    # Outside Starlette: its error middleware sends responses that a middleware inside would not see.
    gate = Gate(application, origins=origins, hosts=hosts, tokens_from=tokens_from, is_draining=is_draining, kpi=kpi)
    return CallIds(AnswerCounter(gate, kpi), sample_ratio)
