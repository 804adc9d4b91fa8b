"""Connection: one WebSocket that speaks Chat Protocol v2.

The controller's task reads; a task of the connection's own writes, so that it reads while it writes. What is to be
written is never queued per event: the writer takes what lies behind its cursors on the exchanges' logs.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from itertools import repeat
from typing import Any
from uuid import uuid4

from starlette.websockets import WebSocket, WebSocketDisconnect

from agentic_backend.auth.user import Authenticator, Tokens, User
from agentic_backend.broadcast.exchange_log import Cursor, ExchangeLog
from agentic_backend.errors import (
    AgenticError,
    Forbidden,
    Internal,
    Unauthenticated,
)
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import Event, Final, FrameRefused, Idle, Pong, SessionChanged
from agentic_backend.protocol.frames import (
    Ask,
    Authenticate,
    ClientFrame,
    Follow,
    HumanResume,
    Ping,
    Stop,
    Unfollow,
    decode_object,
)
from agentic_backend.protocol.messages import Session
from agentic_backend.sessions.departure import Leaving
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.transports.credentials import seconds_left
from agentic_backend.transports.forms import Form
from agentic_backend.transports.pacing import Pacer, text_interval_s
from agentic_backend.transports.repeats import Repeats

log = logging.getLogger(__name__)

GONE, TRY_AGAIN, RESTART, TOO_SLOW, SIGN_IN_AGAIN, STAY_AWAY, TOO_MANY = 1006, 1011, 1012, 4008, 4401, 4403, 4429
# A client that sends without reading is read no further until the writer has caught up.
_UNSENT_AT_MOST = 256
# Those that are made anew from the store may have a MiB each.
_UNSENT_FINALS_AT_MOST = 4
_WATCHED_AT_MOST = 1_000
# What is counted where it is refused, and how it is called then.
_COUNTED = {"ask": "ask", "human_resume": "decision"}


class Connection:
    """`user` and `tokens` are those of the handshake; newer tokens must name the same user.

    A client without a token, where that is allowed, may still sign in with its first frame.
    """

    def __init__(
        self,
        websocket: WebSocket,
        user: User,
        tokens: Tokens | None,
        form: Form,
        *,
        authenticator: Authenticator,
        orchestrator: SessionOrchestrator,
        relay: Relay,
        kpi: Kpi,
        send_timeout_s: float,
    ) -> None:
        self._websocket = websocket
        self._user = user
        self._tokens = tokens
        self._authenticator = authenticator
        self._orchestrator = orchestrator
        self._relay = relay
        self._kpi = kpi
        self._send_timeout_s = send_timeout_s
        self._may_sign_in = tokens is None
        self._unsent: deque[Event] = deque()
        self._changed: dict[str, Session] = {}
        self._cursors: dict[str, Cursor] = {}
        self._stops: dict[str, int] = {}
        self._queries: dict[str, None] = {}
        self._watched: dict[str, None] = {}
        self._form = form
        self._pacer = Pacer(lambda: text_interval_s(form.text_interval_s, relay.running_count))
        self._caught_up = asyncio.Event()
        self._close_code: int | None = None
        self._is_answering = False
        self._expiry: asyncio.TimerHandle | None = None
        self._refused = Repeats()

    async def serve(self) -> int:
        """Serve the socket until it closes; the close code. Its exchanges go on; its queries end with it."""
        self._expire_with_token()
        with self._relay.departure.tells(self._pacer.wake) as leaving:
            writer = asyncio.create_task(self._write(leaving))
            try:
                code = await self._read()
                return self._close_code or code
            finally:
                writer.cancel()
                self._leave()
                await asyncio.wait({writer})

    def exchange_started(self, exchange: ExchangeLog) -> None:
        followed = self._cursors.get(exchange.exchange_id)
        if followed is None or followed.log is not exchange:
            self._follow(exchange, followed.position if followed is not None else 0)

    def session_changed(self, session: Session) -> None:
        self._changed[session.id] = session
        self._pacer.wake()

    async def _read(self) -> int:
        """Read until the client has gone; the code that it, or the connection's loss, closed with."""
        while True:
            try:
                message = await self._websocket.receive()
            except WebSocketDisconnect as gone:
                return gone.code
            if message["type"] == "websocket.disconnect":
                return int(message.get("code") or GONE)
            if self._close_code is not None:
                # The socket is closing; a frame that was sent before the client saw that is not heard.
                continue
            await self._answer(message.get("text") or message.get("bytes") or "")
            while self._is_behind() and self._close_code is None:
                self._caught_up.clear()
                await self._caught_up.wait()

    def _is_behind(self) -> bool:
        finals = sum(isinstance(event, Final) for event in self._unsent)
        return len(self._unsent) >= _UNSENT_AT_MOST or finals >= _UNSENT_FINALS_AT_MOST

    async def _answer(self, data: str | bytes) -> None:
        request_id, raw = uuid4().hex, {}
        self._is_answering = True
        try:
            raw = decode_object(data)
            await self._dispatch(self._form.read(raw), request_id)
        except AgenticError as error:
            self._refuse(error, raw, request_id)
        except Exception as error:
            # The edge of a connection: one frame that fails must not take the others' socket away.
            log.exception("frame failed", extra={"request_id": request_id, "user_id": self._user.id}, exc_info=error)
            self._refuse(Internal(), raw, request_id)
        finally:
            self._is_answering = False
            if self._relay.draining:
                self._pacer.wake()

    async def _dispatch(self, frame: ClientFrame, request_id: str) -> None:
        first, self._may_sign_in = self._may_sign_in, False
        match frame:
            case Authenticate():
                await self._renew(Tokens(frame.access_token, frame.refresh_token), sign_in=first)
            case Ask():
                await self._ask(frame, request_id)
            case Stop():
                await self._stop(frame)
            case Follow():
                await self._follow_frame(frame)
            case Unfollow():
                self._unfollow(frame.session_id)
            case HumanResume():
                await self._human_resume(frame)
            case Ping():
                self._send(Pong())

    async def _renew(self, tokens: Tokens, *, sign_in: bool = False) -> None:
        user = await self._authenticator.authenticate(tokens.access_token)
        if user.id != self._user.id and not sign_in:
            raise Forbidden("A connection belongs to one user; this token names another.")
        self._user, self._tokens = user, tokens
        self._expire_with_token()

    async def _ask(self, ask: Ask, request_id: str) -> None:
        if ask.access_token is not None:
            await self._renew(Tokens(ask.access_token, ask.refresh_token))
        exchange = await self._orchestrator.ask(self._user, ask, self._tokens, request_id)
        if isinstance(exchange, ExchangeLog):
            if exchange.session_id is None:
                self._queries[exchange.exchange_id] = None
            else:
                self._watch(exchange.session_id, exchanges_too=False)
            if exchange.exchange_id not in self._cursors:
                self._follow(exchange, 0)
        else:
            self._send(exchange)

    async def _human_resume(self, frame: HumanResume) -> None:
        exchange = await self._orchestrator.human_resume(
            self._user, frame.session_id, frame.exchange_id, frame.payload, self._tokens
        )
        if exchange.exchange_id not in self._cursors:
            self._follow(exchange, 0)

    async def _stop(self, frame: Stop) -> None:
        stopped = await self._orchestrator.stop(self._user, frame.session_id, frame.exchange_id)
        if not isinstance(stopped, ExchangeLog):
            self._send(_idle(stopped))
            return
        # Who stops an exchange sees it end; who asks again is told, each time, when nothing runs any more.
        self._stops[stopped.exchange_id] = self._stops.get(stopped.exchange_id, 0) + 1
        if stopped.exchange_id not in self._cursors:
            # What waited for a person has ended already.
            self._follow(stopped, stopped.last_seq if stopped.final is None else stopped.final.seq - 1)

    async def _follow_frame(self, frame: Follow) -> None:
        if frame.exchange_id is not None:
            exchange = await self._orchestrator.view(self._user, frame.exchange_id, frame.session_id)
            if isinstance(exchange, ExchangeLog):
                self._kpi.followed(exchange.replay_from(frame.after_seq))
                self._follow(exchange, frame.after_seq)
            else:
                self._kpi.followed("replayed")
                self._send(exchange)
            return
        assert frame.session_id is not None
        session, running = await self._orchestrator.running_in(self._user, frame.session_id)
        self._watch(session.id, exchanges_too=True)
        # One may have begun while the session was read.
        self._kpi.followed("replayed" if running is not None else "live")
        if running is not None:
            self._follow(running, 0)
        else:
            self._send(_idle(session))

    def _follow(self, exchange: ExchangeLog, after_seq: int) -> None:
        before = self._cursors.pop(exchange.exchange_id, None)
        if before is not None:
            exchange.unfollow(before)
        if exchange.final is not None and exchange.final.seq == after_seq:
            # The client has all that there is; a cursor would hold the log for nothing.
            return
        self._cursors[exchange.exchange_id] = exchange.follow(after_seq, self._pacer.wake, self._pacer.wake_for_text)
        self._pacer.wake()

    def _watch(self, session_id: str, *, exchanges_too: bool) -> None:
        self._watched[session_id] = None
        self._relay.watch(session_id, self, exchanges_too=exchanges_too)
        if len(self._watched) > _WATCHED_AT_MOST:
            oldest = next(iter(self._watched))
            self._unwatch(oldest)

    def _unfollow(self, session_id: str) -> None:
        self._unwatch(session_id)
        for exchange_id, cursor in list(self._cursors.items()):
            if cursor.log.session_id == session_id:
                self._drop(exchange_id)

    def _unwatch(self, session_id: str) -> None:
        self._watched.pop(session_id, None)
        self._relay.unwatch(session_id, self)

    def _drop(self, exchange_id: str) -> None:
        cursor = self._cursors.pop(exchange_id)
        cursor.log.unfollow(cursor)
        self._stops.pop(exchange_id, None)
        self._queries.pop(exchange_id, None)

    def _leave(self) -> None:
        self._pacer.cancel()
        for code, times in self._refused.untold():
            self._log_refused(code, times)
        if self._expiry is not None:
            self._expiry.cancel()
        for session_id in list(self._watched):
            self._unwatch(session_id)
        for exchange_id in self._queries:
            query = self._relay.running(exchange_id)
            if query is not None:
                query.stop()
        for exchange_id in list(self._cursors):
            self._drop(exchange_id)

    def _refuse(self, error: AgenticError, raw: dict[str, Any], request_id: str) -> None:
        def echoed(name: str) -> str | None:
            value = raw.get(name)
            return value[:128] if isinstance(value, str) else None

        self._send(
            FrameRefused(
                code=error.code,
                content=error.content,
                retryable=error.retryable,
                request_id=request_id,
                retry_after_s=error.retry_after_s,
                refused=echoed("type"),
                client_exchange_id=echoed("client_exchange_id"),
                session_id=echoed("session_id"),
                exchange_id=echoed("exchange_id"),
            )
        )
        # What can't be read counts as an ask, as a frame without a type is one.
        if (call := _COUNTED.get(echoed("type") or "ask")) is not None:
            self._kpi.refused(call, error.code)
        times = self._refused.count(error.code)
        if times:
            self._log_refused(error.code, times, request_id=request_id)
        if isinstance(error, Unauthenticated) or error.close_code is not None:
            self._close_with(error.close_code or SIGN_IN_AGAIN)

    def _log_refused(self, code: Hashable, times: int, **more: str) -> None:
        """`times` is how often it happened since it was told last; of these `request_id` is the latest."""
        log.info("frame refused", extra={"user_id": self._user.id, "code": code, "count": times, **more})

    def _send(self, event: Event) -> None:
        self._unsent.append(event)
        self._pacer.wake()

    def _close_with(self, code: int) -> None:
        self._close_code = code
        self._pacer.wake()

    def _expire_with_token(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        left_s = seconds_left(self._user)
        if left_s is not None:
            self._expiry = asyncio.get_running_loop().call_later(left_s, self._close_with, SIGN_IN_AGAIN)

    def _is_idle(self) -> bool:
        """Whether a client loses nothing when it goes on elsewhere."""
        if self._is_answering or self._pacer.is_due:
            return False
        return not any(self._relay.is_at_work(cursor.log) for cursor in self._cursors.values())

    async def _write(self, leaving: Leaving) -> None:
        try:
            close_code: int | None = None
            while close_code is None:
                await self._pacer.due()
                # What says why the socket closes is sent before it does.
                close_code = self._close_code
                for event in self._due():
                    frame = self._form.render(event)
                    if frame is not None:
                        await self._transmit(frame)
                if leaving.is_due and self._close_code is None and self._is_idle():
                    self._close_with(RESTART)
            async with asyncio.timeout(self._send_timeout_s):
                await self._websocket.close(close_code)
        except TimeoutError:
            # The client doesn't read: a close frame would wait behind what it has not read either.
            log.info("client too slow", extra={"user_id": self._user.id})
            self._abort()
        except (WebSocketDisconnect, RuntimeError):
            # The socket closed while something was being sent; the reader sees it too.
            pass
        except Exception as error:
            # The edge of a connection: an event that can't be sent must not leave a socket that is open and mute.
            log.exception("socket failed", extra={"user_id": self._user.id}, exc_info=error)
            self._abort()
        finally:
            # Nothing is written any more, so a reader that waits for room must not wait on.
            self._close_code = self._close_code or TRY_AGAIN
            self._caught_up.set()

    async def _transmit(self, text: str) -> None:
        async with asyncio.timeout(self._send_timeout_s):
            await self._websocket.send({"type": "websocket.send", "text": text})

    def _due(self) -> Iterator[Event]:
        """What is to be sent now: answers, changed sessions, and what lies behind each cursor."""
        while self._unsent:
            yield self._unsent.popleft()
        self._caught_up.set()
        for exchange_id, cursor in list(self._cursors.items()):
            for event in cursor.take():
                yield event
                if isinstance(event, Final) and self._cursors.get(exchange_id) is cursor:
                    repeated_stops = self._stops.get(exchange_id, 1) - 1
                    self._drop(exchange_id)
                    yield from repeat(_idle(event.session), repeated_stops)
        while self._changed:
            yield SessionChanged(session=self._changed.pop(next(iter(self._changed))))

    def _abort(self) -> None:
        abort: Callable[[], None] | None = self._websocket.scope["state"].get("abort")
        if abort is not None:
            abort()


def _idle(session: Session | None) -> Idle:
    """Nothing runs in `session`; None is the place of a query."""
    return Idle(session_id=session.id if session else None, next_rank=session.next_rank if session else 0)
