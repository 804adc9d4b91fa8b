"""ChatbotController: the WebSocket endpoint. It accepts and authenticates a socket, then hands it to a Connection."""

import logging
from collections.abc import Mapping
from functools import partial

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import AgenticError, BadFrame, Unauthenticated
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.protocol.close_codes import CONNECTION_LOST, closing_handshake
from agentic_backend.protocol.frames import Authenticate
from agentic_backend.relay.feed import open_feed
from agentic_backend.telemetry.ids import log_ids, set_log_ids
from agentic_backend.tracing.origin import Origin, current_origin, set_origin
from agentic_backend.transports.classic.codec import Classic
from agentic_backend.transports.credentials import token_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.json_object import decode_object
from agentic_backend.transports.socket.chat_v2 import ChatV2, Codec
from agentic_backend.transports.socket.client_socket import SOCKET_IS_CLOSED, ClientSocket, Serving, closing_message
from agentic_backend.transports.socket.connection import Connection

log = logging.getLogger(__name__)

SUBPROTOCOL = "chat.v2"


class ChatbotController:
    def __init__(self, services: DoorServices) -> None:
        self._door = services

    async def endpoint(self, websocket: WebSocket) -> None:
        offered = websocket.scope["subprotocols"]
        if offered and SUBPROTOCOL not in offered:
            self._door.kpi.refusals.refused("socket", "subprotocol")
            refusal = PlainTextResponse(f"Offer the subprotocol {SUBPROTOCOL}, or none.", status_code=400)
            await websocket.send_denial_response(refusal)
            return
        codec: Codec = ChatV2() if offered else Classic()
        await websocket.accept(SUBPROTOCOL if offered else None)
        self._door.kpi.connections.socket_opened(codec.name)
        # The server serves the socket when all middlewares have returned: their frames take more memory than the rest.
        serve: Serving = partial(self._serve, websocket, codec, current_origin(), log_ids())
        websocket.scope["state"]["serve"] = serve

    async def _serve(
        self, handshake: HTTPConnection, codec: Codec, origin: Origin, ids: Mapping[str, object], socket: ClientSocket
    ) -> None:
        set_origin(origin)
        set_log_ids(ids)
        code: int = CONNECTION_LOST
        user: User | None = None
        try:
            with self._door.connections.unauthenticated(), self._door.kpi.connections.token_check("socket"):
                user, tokens = await self._identify(handshake, socket, codec)
            with self._door.connections.of_user(user.id):
                socket.admit()
                # Not to be kept while the socket is open.
                del handshake, origin, ids
                with open_feed(self._door.relay, codec.text_interval_s) as feed:
                    connection = Connection(socket, user, tokens, codec, feed, self._door)
                    # It has the user's newest ones.
                    del tokens
                    code = await connection.serve()
        except AgenticError as error:
            code = closing_handshake(error)
            whose = {} if user is None else {"user_id": user.id}
            self._door.kpi.refusals.refused("socket", error.code, **whose)
            log.info("socket refused", extra={**error.log_fields, **whose})
            await self._close(socket, code)
        except WebSocketDisconnect:
            pass
        finally:
            self._door.kpi.connections.socket_closed(code)

    async def _identify(
        self, handshake: HTTPConnection, socket: ClientSocket, codec: Codec
    ) -> tuple[User, Tokens | None]:
        """The user, from the header, the query string, the anonymous user, or the first frame; and the tokens."""
        token = token_of(handshake, in_query=True)
        if token is not None:
            user = await self._door.authenticator.authenticate(token)
            return user, Tokens(token, expires_at=user.expires_at)
        if self._door.authenticator.anonymous is not None:
            return self._door.authenticator.anonymous, None
        try:
            async with served_timeout(self._door.limits.authenticate_timeout_s):
                frame = codec.read(decode_object(await _first_text(socket)))
        except (TimeoutError, BadFrame, KeyError):
            raise Unauthenticated(reason="missing") from None
        if not isinstance(frame, Authenticate):
            raise Unauthenticated(reason="missing")
        user = await self._door.authenticator.authenticate(frame.access_token)
        return user, Tokens(frame.access_token, frame.refresh_token, user.expires_at)

    async def _close(self, socket: ClientSocket, code: int) -> None:
        try:
            async with served_timeout(self._door.limits.send_timeout_s):
                await socket.send(closing_message(code))
        except SOCKET_IS_CLOSED:
            # The client has disconnected, or doesn't read: a timeout is an OSError.
            pass


async def _first_text(socket: ClientSocket) -> str:
    """Raises WebSocketDisconnect, and KeyError if the message is bytes."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect
    text: str = message["text"]
    return text
