"""Line: the client's one socket, opened again whenever it is lost.

It owns the socket and its tasks. It knows nothing of exchanges: `Followers` gets the events, and says what a new socket
has to ask for. It ends with an error for good, which everything that waits then raises.
"""

import asyncio
import logging
import ssl
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus, ProxyError
from websockets.typing import Subprotocol

from agentic_backend.backoff import backoff
from agentic_backend.client.errors import ChatError, Refused, TurnedAway, Unreachable, Unreadable
from agentic_backend.client.followers import Followers
from agentic_backend.client.reading import event_in, json_object
from agentic_backend.client.tokens import TOKEN_NOT_GIVEN, Tokens
from agentic_backend.errors import ApprovalNotFound, ShuttingDown, TokenExpired, Unauthenticated
from agentic_backend.protocol.close_codes import CONNECTION_LOST, Advice, CloseCode
from agentic_backend.protocol.events import Event, FrameRefused, Pong
from agentic_backend.protocol.frames import Authenticate, ClientFrame, Ping
from agentic_backend.system_errors import summary_of

log = logging.getLogger(__name__)

SUBPROTOCOL = Subprotocol("chat.v2")
_OPEN_TIMEOUT_S = 10
_ANSWER_TIMEOUT_S = 10
_SEND_TIMEOUT_S = 30
_CLOSE_TIMEOUT_S = 1
_PING_AFTER_S = 20
"""While nothing is received for so long, a `ping` asks whether the server is still there, which must bring an answer in
`_ANSWER_TIMEOUT_S`. A ping of WebSocket would not do: any proxy answers that."""
_EVENT_BYTES_AT_MOST = 64 * 1024 * 1024
_RECONNECT_S = 0.2, 30.0
_RETURN_S = 5.0, 60.0
"""The first and the longest delay after a server that has too many connections."""
_SETTLED_S = 5.0
"""A socket that closes sooner has not really come to be: the next attempt waits longer."""
_ADVICE = {code.value: code.advice for code in CloseCode}
_WHY = {
    CloseCode.POLICY_VIOLATION.value: "too many frames came at once",
    CloseCode.TOO_LARGE.value: "a frame was too large",
    CloseCode.FORBIDDEN.value: "the user has no access to it",
}
_MISUNDERSTOOD = frozenset({1002, 1003, 1007})
"""Close codes of a server that does not understand this client."""
_REFUSALS = frozenset({400, 403, 404, 405, 410, 426})
"""HTTP statuses of a handshake after which coming back would only repeat the refusal."""
_NO_ANSWER = "No server answers"
_SILENT = "The connection is open, but carries nothing."
_AGAIN_ELSEWHERE = frozenset({ShuttingDown.code, Unauthenticated.code, TokenExpired.code})
"""What refuses a frame together with its socket: it is sent again on the next one."""


@dataclass(eq=False)
class _Request:
    """A frame whose sender waits until the server has taken it."""

    frame: ClientFrame
    data: str
    """The frame as it is sent."""
    taken: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    sendings: int = 0
    put_off: bool = False
    """Whether this socket can't carry it, but the next one may."""


@dataclass(frozen=True)
class _Lost:
    """How a socket has ended: what to do next, what is to be said if that is in vain, and how long the server wants to
    be left alone."""

    advice: Advice
    error: Unreachable
    retry_after_s: float = 0.0


class _Connect(connect):
    """Follows no redirect: it would lose the token on the way to another host, and find no end in a circle."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class Line:
    def __init__(
        self, url: str, tokens: Tokens, followers: Followers, patience_s: float, ssl_context: ssl.SSLContext | None
    ) -> None:
        self.error: ChatError | None = None
        """Why it has ended for good."""
        self._url = url
        self._tokens = tokens
        self._followers = followers
        self._patience_s = patience_s
        self._ssl = ssl_context or (True if url.startswith("wss:") else None)
        self._socket: ClientConnection | None = None
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._requests: dict[_Request, None] = {}
        """Those that the server has not taken, in order."""
        self._pongs: deque[_Request | None] = deque()
        """What each ping of this socket, whose pong has not come, was sent after."""
        self._patience = asyncio.timeout(None)
        """Runs while no server has answered on an open socket, and is then at its end."""
        self._trouble: Unreachable | None = None
        """What was in the way last, since a server has answered."""
        self._doing = ""
        """What is said where it has not come to that."""
        self._token_refused = False
        """Whether the server has refused a token, and answered nothing since."""
        self._opened = asyncio.Event()

    async def opened(self) -> None:
        """Wait until a server has answered for the first time. Raises the error that has ended the line."""
        await self._opened.wait()
        if self.error is not None:
            raise self.error

    async def run(self) -> None:
        """Keep a socket open, until cancelled or until another try makes no sense."""
        try:
            await self._keep_open()
        except ChatError as error:
            self.end(error)
        except Exception as bug:
            self.end(ChatError("The client failed."), bug)

    def end(self, error: ChatError, cause: Exception | None = None) -> None:
        """End all that waits with `error`."""
        if self.error is None:
            error.__cause__ = cause or error.__cause__
            self.error = error
        self._followers.fail(self.error)
        for request in self._requests:
            if not request.taken.done():
                request.taken.set_exception(self.error)
        self._opened.set()

    def send(self, frame: ClientFrame) -> None:
        """Send a frame, if a socket is open.

        Raises the error that has ended the line, and ValueError if a value in the frame is not one of JSON.
        """
        if self.error is not None:
            raise self.error
        data = frame.model_dump_json()
        if self._socket is not None:
            self._outgoing.put_nowait(data)

    async def request(self, frame: ClientFrame) -> None:
        """Send a frame, again on the next socket if need be, and wait until the server has taken it.

        Raises Refused, or Unreachable if that takes too long, and ValueError if a value in it is not one of JSON.
        """
        if self.error is not None:
            raise self.error
        request = _Request(frame, frame.model_dump_json())
        self._requests[request] = None
        if self._socket is not None:
            self._send_request(request)
        try:
            async with asyncio.timeout(self._patience_s):
                await request.taken
        except TimeoutError:
            self.reconnect()
            raise Unreachable("The server did not answer in time.") from None
        finally:
            self._requests.pop(request, None)

    def reconnect(self) -> None:
        """Let go of the socket: another one, perhaps of another server, may do better."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def _keep_open(self) -> None:
        try:
            async with asyncio.timeout(self._patience_s) as self._patience:
                await self._come_back()
        except TimeoutError:
            error = self._trouble or Unreachable(self._doing)
            raise error from error.__cause__

    async def _come_back(self) -> NoReturn:
        delays, returns = backoff(*_RECONNECT_S), backoff(*_RETURN_S)
        while True:
            began_at = time.monotonic()
            lost = await self._one_socket()
            self._trouble = lost.error
            if self._patience.when() is None:
                # A server had answered.
                self._patience.reschedule(asyncio.get_running_loop().time() + self._patience_s)
                if time.monotonic() - began_at > _SETTLED_S:
                    delays, returns = backoff(*_RECONNECT_S), backoff(*_RETURN_S)
            # Not all at the moment that the server has told all of them.
            delay_s = lost.retry_after_s + next(returns if lost.advice is Advice.WAIT else delays)
            cause = summary_of(lost.error.__cause__ or lost.error, with_host=False)
            log.info("reconnecting", extra={"cause": cause, "delay_s": round(delay_s, 1)})
            await asyncio.sleep(delay_s)

    async def _one_socket(self) -> _Lost:
        """Serve one socket to its end. Raises a ChatError if another one would do no better."""
        try:
            self._doing = TOKEN_NOT_GIVEN
            token = await (self._tokens.renewed() if self._token_refused else self._tokens.newest())
            self._doing = f"{_NO_ANSWER}."
            headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
            async with _Connect(
                self._url,
                subprotocols=[SUBPROTOCOL],
                additional_headers=headers,
                open_timeout=_OPEN_TIMEOUT_S,
                close_timeout=_CLOSE_TIMEOUT_S,
                ping_interval=None,
                max_size=_EVENT_BYTES_AT_MOST,
                ssl=self._ssl,
            ) as socket:
                await self._serve(socket)
        except Unreachable as error:
            # The source of tokens is the caller's; it may do better later, as may a line that carries nothing.
            return _Lost(Advice.RECONNECT, error)
        except ConnectionClosed as closed:
            return self._after_close(closed)
        except InvalidStatus as refused:
            return self._after_status(refused)
        except (InvalidMessage, ProxyError, OSError, TimeoutError) as lost:
            trouble = Unreachable(f"{_NO_ANSWER}: {summary_of(lost, with_host=False)}.")
            trouble.__cause__ = lost
            return _Lost(Advice.RECONNECT, trouble)
        except InvalidHandshake as refused:
            raise Unreadable("The server does not speak the protocol.") from refused

    def _after_close(self, closed: ConnectionClosed) -> _Lost:
        received, sent = closed.rcvd, closed.sent
        if sent is not None and not closed.rcvd_then_sent and sent.code in {*_MISUNDERSTOOD, CloseCode.TOO_LARGE}:
            raise Unreadable(f"The server sent what is not of the protocol, or too large: {sent.code}.") from closed
        code = received.code if received is not None else CONNECTION_LOST
        if code in _MISUNDERSTOOD:
            raise TurnedAway(code, "The server does not understand this client.") from closed
        advice = _ADVICE.get(code, Advice.RECONNECT)
        if advice is Advice.STAY_AWAY:
            why = _WHY.get(code, "it wants no more of this client")
            raise TurnedAway(code, f"The server has closed the connection: {why}.") from closed
        return self._lost(advice, code, "The server has closed the connection.", closed)

    def _after_status(self, refused: InvalidStatus) -> _Lost:
        """A status that this client does not know is one of something that may pass, as an unknown close code is."""
        status, headers = refused.response.status_code, refused.response.headers
        where = _redirected(_first(headers, "Location"), self._url) if 300 <= status < 400 else ""
        if where:
            raise TurnedAway(status, f"The server redirects to {where}.") from refused
        content = "The server refuses the connection."
        if status in _REFUSALS or status < 400:
            raise TurnedAway(status, content) from refused
        advice = {401: Advice.SIGN_IN, 429: Advice.WAIT}.get(status, Advice.RECONNECT)
        return self._lost(advice, status, content, refused, _seconds_in(_first(headers, "Retry-After")))

    def _lost(self, advice: Advice, code: int, content: str, cause: Exception, retry_after_s: float = 0.0) -> _Lost:
        if advice is Advice.SIGN_IN:
            if self._token_refused or not self._tokens.renewable:
                raise TurnedAway(code, "The server does not take the token.") from cause
            self._token_refused = True
        error = Unreachable(content, code)
        error.__cause__ = cause
        return _Lost(advice, error, retry_after_s)

    async def _serve(self, socket: ClientConnection) -> NoReturn:
        """Raises ConnectionClosed at the socket's end, and Unreachable if it carries nothing."""
        if socket.subprotocol != SUBPROTOCOL:
            raise Unreadable("The server does not speak the protocol.")
        self._doing = _SILENT
        self._socket, self._outgoing, self._pongs = socket, asyncio.Queue(), deque()
        tasks = {asyncio.create_task(self._write(socket)), asyncio.create_task(self._renew())}
        try:
            self._ask_anew()
            first = await _answer_on(socket)
            self._patience.reschedule(None)
            self._trouble = None
            self._take(first)
            self._opened.set()
            while True:
                self._take(await self._next_on(socket))
        finally:
            self._socket = None
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _next_on(self, socket: ClientConnection) -> str | bytes:
        try:
            async with asyncio.timeout(_PING_AFTER_S):
                return await socket.recv()
        except TimeoutError:
            self._ping(None)
            return await _answer_on(socket)

    def _ask_anew(self) -> None:
        """Send what a new socket needs: first a ping, whose pong shows that the server has taken the socket."""
        self._ping(None)
        for frame in self._followers.frames():
            self._outgoing.put_nowait(frame.model_dump_json())
        for request in self._requests:
            request.put_off = False
            self._send_request(request)

    def _send_request(self, request: _Request) -> None:
        request.sendings += 1
        self._outgoing.put_nowait(request.data)
        self._ping(request)

    def _ping(self, after: _Request | None) -> None:
        self._outgoing.put_nowait(Ping().model_dump_json())
        self._pongs.append(after)

    def _take(self, data: str | bytes) -> None:
        raw = json_object(data)
        try:
            event = event_in(raw)
        except Unreadable as error:
            exchange_id = raw.get("exchange_id")
            if isinstance(exchange_id, str) and self._followers.fail_one(exchange_id, error):
                return
            raise
        if event is not None:
            self._sort(event, len(data))

    def _sort(self, event: Event, size: int) -> None:
        if isinstance(event, Pong):
            self._token_refused = False
            request = self._pongs.popleft() if self._pongs else None
            if request is not None and not request.put_off and not request.taken.done():
                request.taken.set_result(None)
        elif isinstance(event, FrameRefused):
            self._refuse(event)
        else:
            self._followers.take(event, size)

    def _refuse(self, refused: FrameRefused) -> None:
        """Frames are answered in order, so what refuses a request comes before the pong of the ping after it."""
        if refused.code in _AGAIN_ELSEWHERE:
            for request in filter(None, self._pongs):
                request.put_off = True
        elif refused.refused in ("ask", "follow", "follow_sessions"):
            if refused.refused != "ask" and refused.retryable:
                self.reconnect()
            else:
                self._followers.refuse(refused)
        elif (head := next(iter(self._pongs), None)) is not None and head.frame.type == refused.refused:
            # A decision that is sent again has been taken, if nothing waits for it any more.
            was_taken = head.sendings > 1 and refused.code == ApprovalNotFound.code
            if not was_taken and not head.taken.done():
                head.taken.set_exception(Refused.of(refused))

    async def _write(self, socket: ClientConnection) -> None:
        outgoing = self._outgoing
        try:
            while True:
                data = await outgoing.get()
                async with asyncio.timeout(_SEND_TIMEOUT_S):
                    await socket.send(data)
        except ConnectionClosed:
            # The reader sees it too.
            pass
        except TimeoutError:
            socket.transport.abort()

    async def _renew(self) -> None:
        """Show the server newer tokens in time. Where that fails, it closes the socket once the old one has expired."""
        try:
            while (renewal_in_s := self._tokens.renewal_in_s) is not None:
                await asyncio.sleep(renewal_in_s)
                token = await self._tokens.renewed()
                if token is not None:
                    await self.request(Authenticate(access_token=token))
        except Exception as error:
            cause = summary_of(error.__cause__ or error, with_host=False)
            log.warning("the token could not be renewed", extra={"cause": cause})


async def _answer_on(socket: ClientConnection) -> str | bytes:
    """What comes after a ping. Raises Unreachable."""
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            return await socket.recv()
    except TimeoutError as silent:
        # It would not carry a close frame either.
        socket.transport.abort()
        raise Unreachable(_SILENT) from silent


def _redirected(location: str, socket_url: str) -> str:
    """Where a redirect leads, without its query, which may hold secrets; empty if that is no address."""
    try:
        to = urlsplit(urljoin(socket_url.replace("ws", "http", 1), location))
    except ValueError:
        return ""
    return location and f"{to.scheme}://{to.netloc.rpartition('@')[2]}{to.path}"


def _first(headers: Headers, name: str) -> str:
    """The first of the values, as a proxy and the server may each have one; empty if there is none."""
    return next(iter(headers.get_all(name)), "")


def _seconds_in(retry_after: str) -> float:
    """The seconds from now that a `Retry-After` names (RFC 9110 §10.2.3); 0 if it can't be read."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    except (OverflowError, TypeError, ValueError):
        return 0.0
