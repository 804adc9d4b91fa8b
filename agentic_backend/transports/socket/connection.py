"""Connection: one WebSocket. It parses the client's frames, calls the orchestrator, and renders the feed's events.

The controller's task reads, and a second task writes, so that the connection does both at the same time.
"""

import asyncio
import logging
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, assert_never

from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import AgenticError, Forbidden, Internal
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.protocol.close_codes import CONNECTION_LOST, CloseCode, closing
from agentic_backend.protocol.events import Event, FrameRefused, Pong
from agentic_backend.protocol.frames import (
    LONGEST_ID,
    Ask,
    Authenticate,
    ClientFrame,
    Follow,
    FollowSessions,
    HumanResume,
    Ping,
    Stop,
    Unfollow,
    UnfollowSessions,
)
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.feed import Feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.asking.turn import Turn, past_messages
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.credentials import seconds_left
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.json_object import decode_object
from agentic_backend.transports.refusal_detail import detail_for
from agentic_backend.transports.repeats import Repeats
from agentic_backend.transports.rest.traced_endpoint import failure
from agentic_backend.transports.socket.chat_v2 import Codec
from agentic_backend.transports.socket.client_socket import SOCKET_IS_CLOSED, ClientSocket, closing_message

log = logging.getLogger(__name__)

PATH = "/agentic/v1/chatbot/query/ws"

# The frames whose refusals are counted, with the metric's `call` label.
_COUNTED = {"ask": "ask", "human_resume": "decision"}
# The most characters that are sent at once.
_FRAGMENT = 65_536
# Stands for a frame that is no JSON object. It has a type, because a frame without one is an ask.
_UNREADABLE: dict[str, Any] = {"type": False}


# Converts an `ask` frame to a Turn.


def turn_of(ask: Ask) -> Turn:
    """The turn that `ask` describes, without its tokens, which belong to the connection."""
    return Turn(
        parts=[TextPart(text=ask.message)],
        mode=ask.mode,
        session_id=ask.session_id,
        agent_id=ask.agent_id,
        chat_profile=ask.chat_profile,
        scope=ask.scope,
        client_exchange_id=ask.client_exchange_id,
        runtime_context=ask.runtime_context,
        attachments=tuple(ask.attachments),
        history=past_messages(ask.history),
    )


class Connection:
    """`user` and `tokens` come from the handshake; newer tokens must name the same user.

    Newer tokens also reach what runs already for the user, since its exchanges hold the same `UserTokens`.
    """

    def __init__(
        self,
        socket: ClientSocket,
        user: User,
        tokens: Tokens | None,
        codec: Codec,
        feed: Feed,
        services: DoorServices,
    ) -> None:
        self._socket = socket
        self._user = user
        self._tokens = services.tokens.of(user.id)
        """The user's newest tokens."""
        self._tokens.offer(tokens)
        self._codec = codec
        self._feed = feed
        self._door = services
        self._orchestrator = services.sessions.orchestrator
        self._sessions = services.sessions.service
        self._may_sign_in = tokens is None
        """Whether the next frame may name any user: an anonymous client may sign in with its first frame."""
        self._origin = current_origin()
        """What the client has named in its handshake."""
        self._refused = Repeats()
        """Counts refused frames by error code, so that the log gets one line a minute for each."""

    async def serve(self) -> int:
        """Serve the socket until it closes; return the close code."""
        self._feed.end_after(seconds_left(self._user))
        writer = asyncio.create_task(self._write())
        try:
            code = await self._read()
            return self._feed.close_code or code
        finally:
            writer.cancel()
            await asyncio.wait({writer})
            for refusal, times in self._refused.untold():
                self._log_refused(refusal, times)

    async def _read(self) -> int:
        """Read until the client disconnects; return its close code, or CONNECTION_LOST."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return int(message.get("code") or CONNECTION_LOST)
            if self._feed.close_code is not None:
                # The socket is closing: ignore frames that the client sent before it saw that.
                continue
            with self._feed.answering():
                await self._answer(message.get("text") or message.get("bytes") or "")
            await self._feed.room()

    async def _answer(self, data: str | bytes) -> None:
        with self._origin.again().entered() as origin:
            await self._answered(data, origin.request_id)

    async def _answered(self, data: str | bytes, request_id: str) -> None:
        raw = _UNREADABLE
        try:
            raw = decode_object(data)
            frame = self._codec.read(raw)
            with self._span_of(frame):
                await self._dispatch(await self._with_own_id(frame), request_id)
        except AgenticError as error:
            self._refuse(error, raw, request_id)
        except Exception as error:
            # A frame that fails must not close the socket for the other frames.
            log.exception("frame failed", extra={"request_id": request_id, "user_id": self._user.id}, exc_info=error)
            self._refuse(Internal(), raw, request_id)

    def _span_of(self, frame: ClientFrame) -> AbstractContextManager[object]:
        """The span of what the frame asks for, beneath which an exchange is that it begins."""
        if isinstance(frame, Ping) or not self._door.tracing.sends:
            return nullcontext()
        attributes = {"agentic.frame.type": frame.type, "network.protocol.name": "websocket", "url.path": PATH}
        return self._door.tracing.call(f"{frame.type} {PATH}", attributes, failure)

    async def _dispatch(self, frame: ClientFrame, request_id: str) -> None:
        first, self._may_sign_in = self._may_sign_in, False
        if isinstance(frame, Ask | HumanResume) and frame.access_token is not None:
            await self._renew(frame.access_token, frame.refresh_token)
        match frame:
            case Authenticate():
                await self._renew(frame.access_token, frame.refresh_token, sign_in=first)
            case Ask():
                asked = await self._orchestrator.ask(self._user, turn_of(frame), self._tokens.newest, request_id)
                if frame.client_exchange_id is not None:
                    self._codec.name_exchange(asked.exchange_id, frame.client_exchange_id)
                self._feed.follow_asked(asked)
            case Stop():
                await self._stop(frame)
            case Follow():
                await self._follow(frame)
            case Unfollow() | FollowSessions() | UnfollowSessions():
                self._watch(frame)
            case HumanResume():
                resumed = await self._orchestrator.human_resume(
                    self._user, frame.session_id, frame.exchange_id, frame.payload, self._tokens.newest
                )
                self._feed.follow_decided(resumed)
            case Ping():
                self._feed.answer(Pong())
            case _:
                assert_never(frame)

    async def _with_own_id(self, frame: ClientFrame) -> ClientFrame:
        """The frame with the server's id of the exchange, which some clients name by the id that they gave it."""
        if not isinstance(frame, HumanResume | Stop | Follow) or not self._codec.knows_clients_ids:
            return frame
        name = frame.exchange_id
        if name is None:
            return frame
        exchange_id = await self._orchestrator.asked_as(self._user, name)
        if exchange_id is None:
            await self._name(name)
            return frame
        self._codec.name_exchange(exchange_id, name)
        return frame.model_copy(update={"exchange_id": exchange_id})

    async def _name(self, exchange_id: str) -> None:
        """Tell the codec the client's id for an exchange whose first event here may not have it."""
        if self._codec.knows_clients_ids:
            names = await self._sessions.client_exchange_ids([exchange_id])
            for name in names.values():
                self._codec.name_exchange(exchange_id, name)

    async def _renew(self, access_token: str, refresh_token: str | None, *, sign_in: bool = False) -> None:
        with self._door.kpi.connections.token_check("frame"):
            user = await self._door.authenticator.authenticate(access_token)
        if user.id != self._user.id and not sign_in:
            raise Forbidden("A connection belongs to one user; this token names another.")
        self._user, self._tokens = user, self._door.tokens.of(user.id)
        self._tokens.offer(Tokens(access_token, refresh_token, user.expires_at))
        self._feed.end_after(seconds_left(user))

    async def _stop(self, frame: Stop) -> None:
        stopped = await self._orchestrator.stop(self._user, frame.session_id, frame.exchange_id)
        if isinstance(stopped, ExchangeLog) and frame.exchange_id is None:
            await self._name(stopped.exchange_id)
        self._feed.stopped(stopped)

    async def _follow(self, frame: Follow) -> None:
        if frame.exchange_id is not None:
            exchange = await self._orchestrator.view(self._user, frame.exchange_id, frame.session_id)
            self._door.kpi.connections.followed(self._feed.follow(exchange, frame.after_seq))
            if not self._feed.follows(exchange.exchange_id):
                self._feed.idle(await self._orchestrator.session_of(self._user, exchange))
            return
        assert frame.session_id is not None, "a frame that names nothing is refused"
        session, running = await self._orchestrator.running_in(self._user, frame.session_id)
        if running is not None:
            await self._name(running.exchange_id)
        self._door.kpi.connections.followed(self._feed.follow_session(session, running))

    def _watch(self, frame: Unfollow | FollowSessions | UnfollowSessions) -> None:
        match frame:
            case Unfollow():
                self._feed.unfollow_session(frame.session_id)
            case FollowSessions():
                self._feed.follow_sessions(self._user.id)
            case UnfollowSessions():
                self._feed.unfollow_sessions()
            case _:
                assert_never(frame)

    def _refuse(self, error: AgenticError, raw: dict[str, Any], request_id: str) -> None:
        def echoed(name: str) -> str | None:
            value = raw.get(name)
            return value[:LONGEST_ID] if isinstance(value, str) else None

        self._feed.answer(
            FrameRefused(
                code=error.code,
                content=error.content,
                retryable=error.retryable,
                request_id=request_id,
                retry_after_s=error.retry_after_s,
                detail=detail_for(self._user, error, self._door.secrets),
                refused=echoed("type") if raw.get("type") is not None else "ask",
                client_exchange_id=echoed("client_exchange_id"),
                session_id=echoed("session_id"),
                exchange_id=echoed("exchange_id"),
            )
        )
        # An unreadable frame counts as an ask, like a frame without a type.
        if (call := _COUNTED.get(echoed("type") or "ask")) is not None:
            self._door.kpi.calls.refused(call, error.code)
        self._door.kpi.refusals.refused("frame", error.code, self._user.id)
        times = self._refused.count(error.code)
        if times:
            self._log_refused(error.code, times, request_id=request_id)
        if (code := closing(error)) is not None:
            self._feed.end(code)

    def _log_refused(self, code: Hashable, times: int, **more: str) -> None:
        """`times` counts the refusals since the last log line; `request_id` belongs to the latest one."""
        log.info("frame refused", extra={"user_id": self._user.id, "code": code, "count": times, **more})

    async def _show(self, event: Event) -> None:
        # A codec may leave an event out.
        for frame in self._codec.render(event):
            await self._send(frame)

    async def _send(self, frame: str) -> None:
        """Send a frame; a long one in fragments, each once the client has read those before, so that no copies of it
        pile up. Raises TimeoutError and SOCKET_IS_CLOSED.
        """
        for start in range(0, len(frame), _FRAGMENT):
            is_last = start + _FRAGMENT >= len(frame)
            message = {"type": "websocket.send", "text": frame[start : start + _FRAGMENT], "more": not is_last}
            if self._socket.is_writable:
                await self._socket.send(message)
                continue
            async with served_timeout(self._door.limits.send_timeout_s):
                await self._socket.send(message)

    async def _write(self) -> None:
        try:
            async for event in self._feed:
                await self._show(event)
                # Not to be kept while this waits for the next one.
                del event
            async with served_timeout(self._door.limits.send_timeout_s):
                await self._socket.send(closing_message(self._feed.close_code or CloseCode.INTERNAL_ERROR))
        except TimeoutError:
            # The client doesn't read, so a close frame would wait behind the unread data.
            log.info("client too slow", extra={"user_id": self._user.id})
            self._feed.end(CloseCode.TOO_SLOW)
            self._socket.abort()
        except SOCKET_IS_CLOSED:
            # The socket closed during a send; the reader sees it too.
            pass
        except Exception as error:
            # If an event can't be sent, the socket must not stay open and silent.
            log.exception("socket failed", extra={"user_id": self._user.id}, exc_info=error)
            self._socket.abort()
        finally:
            # The writer has ended: a reader that waits in `room` must continue.
            self._feed.end(CloseCode.INTERNAL_ERROR)
