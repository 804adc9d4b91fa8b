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
from typing import NoReturn

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus, ProxyError
from websockets.typing import Subprotocol

from agentic_backend.backoff import backoff
from agentic_backend.client.errors import ChatError, Refused, TurnedAway, Unreachable, Unreadable
from agentic_backend.client.followers import Followers
from agentic_backend.client.reading import event_in, json_object
from agentic_backend.client.tokens import Tokens
from agentic_backend.errors import ApprovalNotFound, ShuttingDown, TokenExpired, Unauthenticated
from agentic_backend.protocol.close_codes import CONNECTION_LOST, Advice, CloseCode
from agentic_backend.protocol.events import Event, FrameRefused, Pong
from agentic_backend.protocol.frames import Authenticate, ClientFrame, Ping

log = logging.getLogger(__name__)

SUBPROTOCOL = Subprotocol("chat.v2")
_OPEN_TIMEOUT_S = 10
_ANSWER_TIMEOUT_S = 10
_SEND_TIMEOUT_S = 30
_CLOSE_TIMEOUT_S = 1
_PING_EVERY_S = 20
"""How often websockets asks whether the other end is still there, and how long it waits for the answer."""
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
        self._open_until = time.monotonic()
        """When a socket that a server had answered on was last open."""
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
        delays, returns = backoff(*_RECONNECT_S), backoff(*_RETURN_S)
        while True:
            began_at = time.monotonic()
            advice, cause = await self._one_socket()
            if self._open_until - began_at > _SETTLED_S:
                delays, returns = backoff(*_RECONNECT_S), backoff(*_RETURN_S)
            delay_s = next(returns if advice is Advice.WAIT else delays)
            if time.monotonic() + delay_s - self._open_until > self._patience_s:
                raise Unreachable(f"No server answers: {type(cause).__name__}.") from cause
            log.info("reconnecting", extra={"cause": type(cause).__name__, "delay_s": round(delay_s, 1)})
            await asyncio.sleep(delay_s)

    async def _one_socket(self) -> tuple[Advice, Exception]:
        """Serve one socket to its end; return what to do next, and why. Raises a ChatError if nothing can be done."""
        try:
            token = await (self._tokens.renewed() if self._token_refused else self._tokens.newest())
        except Exception as failed:
            # The source of tokens is the caller's; it may do better later.
            return Advice.RECONNECT, failed
        try:
            headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
            async with connect(
                self._url,
                subprotocols=[SUBPROTOCOL],
                additional_headers=headers,
                open_timeout=_OPEN_TIMEOUT_S,
                close_timeout=_CLOSE_TIMEOUT_S,
                ping_interval=_PING_EVERY_S,
                ping_timeout=_PING_EVERY_S,
                max_size=_EVENT_BYTES_AT_MOST,
                ssl=self._ssl,
            ) as socket:
                await self._serve(socket)
        except ConnectionClosed as closed:
            return self._after_close(closed), closed
        except InvalidStatus as refused:
            status = refused.response.status_code
            if status < 500 and status not in (408, 425, 429):
                raise TurnedAway(status, "The server refuses the connection.") from refused
            return (Advice.WAIT if status == 429 else Advice.RECONNECT), refused
        except (InvalidMessage, ProxyError, OSError, TimeoutError) as lost:
            return Advice.RECONNECT, lost
        except InvalidHandshake as refused:
            raise Unreadable("The server does not speak the protocol.") from refused

    def _after_close(self, closed: ConnectionClosed) -> Advice:
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
        if advice is Advice.SIGN_IN:
            if self._token_refused or not self._tokens.renewable:
                raise TurnedAway(code, "The server does not take the token.") from closed
            self._token_refused = True
        return advice

    async def _serve(self, socket: ClientConnection) -> NoReturn:
        """Raises ConnectionClosed at the socket's end."""
        if socket.subprotocol != SUBPROTOCOL:
            raise Unreadable("The server does not speak the protocol.")
        self._socket, self._outgoing, self._pongs = socket, asyncio.Queue(), deque()
        tasks = {asyncio.create_task(self._write(socket)), asyncio.create_task(self._renew())}
        answered = False
        try:
            self._ask_anew()
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                first = await socket.recv()
            answered = True
            self._take(first)
            self._opened.set()
            while True:
                self._take(await socket.recv())
        finally:
            self._socket = None
            if answered:
                self._open_until = time.monotonic()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

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
            log.warning("the token could not be renewed", extra={"cause": type(error).__name__})
