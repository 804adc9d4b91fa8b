"""ChatbotController: the WebSocket endpoint. It accepts, authenticates and hands over to a Connection; no more."""

import asyncio
import logging
from collections.abc import Callable

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentic_backend.auth.user import Authenticator, Tokens, User
from agentic_backend.errors import AgenticError, BadFrame, Forbidden, RateLimited, Unauthenticated
from agentic_backend.kpi import Kpi
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.protocol.frames import Authenticate, parse_frame
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.transports.connection import GONE, STAY_AWAY, TOO_MANY, TRY_AGAIN, Connection
from agentic_backend.transports.credentials import token_of
from agentic_backend.transports.forms import ChatV2, Classic, Form
from agentic_backend.transports.open_connections import OpenConnections

log = logging.getLogger(__name__)

PATH = "/agentic/v1/chatbot/query/ws"
SUBPROTOCOL = "chat.v2"


class ChatbotController:
    def __init__(
        self,
        *,
        authenticator: Authenticator,
        orchestrator: SessionOrchestrator,
        relay: Relay,
        kpi: Kpi,
        connections: OpenConnections,
        limits: LimitsSettings,
    ) -> None:
        self._authenticator = authenticator
        self._orchestrator = orchestrator
        self._relay = relay
        self._kpi = kpi
        self._connections = connections
        self._limits = limits

    async def endpoint(self, websocket: WebSocket) -> None:
        offered = websocket.scope["subprotocols"]
        if offered and SUBPROTOCOL not in offered:
            self._kpi.socket_refused("subprotocol")
            refusal = PlainTextResponse(f"Offer the subprotocol {SUBPROTOCOL}, or none.", status_code=400)
            await websocket.send_denial_response(refusal)
            return
        form: Form = ChatV2() if offered else Classic()
        await websocket.accept(SUBPROTOCOL if offered else None)
        self._kpi.socket_opened(form.name)
        code = GONE
        try:
            with self._connections.unauthenticated():
                user, tokens = await self._identify(websocket)
            with self._connections.one(), self._connections.of_user(user.id):
                _admit(websocket)
                code = await Connection(
                    websocket,
                    user,
                    tokens,
                    form,
                    authenticator=self._authenticator,
                    orchestrator=self._orchestrator,
                    relay=self._relay,
                    kpi=self._kpi,
                    send_timeout_s=self._limits.send_timeout_s,
                ).serve()
        except AgenticError as error:
            code = _close_code(error)
            self._kpi.socket_refused(error.code)
            log.info("socket refused", extra={"code": error.code})
            await self._close(websocket, code)
        except WebSocketDisconnect:
            pass
        finally:
            self._kpi.socket_closed(code)

    async def _identify(self, websocket: WebSocket) -> tuple[User, Tokens | None]:
        """Who connects: by header, by query, as nobody in particular, or by the first frame."""
        token = token_of(websocket, in_query=True)
        if token is not None:
            return await self._authenticator.authenticate(token), Tokens(token)
        if self._authenticator.anonymous is not None:
            return self._authenticator.anonymous, None
        try:
            async with asyncio.timeout(self._limits.authenticate_timeout_s):
                frame = parse_frame(await websocket.receive_text())
        except (TimeoutError, BadFrame, KeyError):
            raise Unauthenticated from None
        if not isinstance(frame, Authenticate):
            raise Unauthenticated
        tokens = Tokens(frame.access_token, frame.refresh_token)
        return await self._authenticator.authenticate(tokens.access_token), tokens

    async def _close(self, websocket: WebSocket, code: int) -> None:
        try:
            async with asyncio.timeout(self._limits.send_timeout_s):
                await websocket.close(code)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            # The client has gone by itself.
            pass


def _admit(websocket: WebSocket) -> None:
    """From here on the client may send what limits.frame_bytes allows."""
    admit: Callable[[], None] | None = websocket.scope["state"].get("admit")
    if admit is not None:
        admit()


def _close_code(error: AgenticError) -> int:
    """What closes a socket whose client was not let in."""
    if isinstance(error, Forbidden):
        return STAY_AWAY
    if isinstance(error, RateLimited):
        return TOO_MANY
    return error.close_code or TRY_AGAIN
