"""What both clients do where a server, a proxy or a token function misbehaves: one table, and the server that does so.

docs/clients.md tells of them in "Where something is in the way".
"""

import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from support.certificates import certificate
from support.hostile_answers import AWAITING, FINAL, STARTED, refusal

SPEED = 20
"""How much faster the clocks of the clients run, so that nobody waits for their bounds."""
PATIENCE_S = 15
"""Of the clients, by their clocks, where a behaviour needs no more."""

Talk = Callable[[ServerConnection, "Visits"], Awaitable[None]]
Visits = list[float]
"""When the server got something, by its own clock: a handshake that it refused, an ask, a decision, a stop."""
Kind = Literal["answered", "turned_away", "unreachable", "refused", "left"]
Call = Literal["ask", "decide", "stop", "leave"]
"""What the caller waits for: an answer, that its decision or stop is taken, or that the client ends when it is left
before that."""
TOKEN_BOUND_S = 30
"""For how long a token function may keep a client waiting."""


@dataclass(frozen=True)
class Status:
    """What HTTP answers instead of a socket."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    """How often each header is there."""


@dataclass(frozen=True)
class Outcome:
    """What the caller gets, and `code` and text of its error."""

    kind: Kind
    code: int | str | None = None
    says: str = ""


@dataclass(frozen=True)
class Behaviour:
    name: str
    acts: tuple[Status | Talk, ...]
    """What the server does with each socket: the last one with all later ones. Without any nobody listens."""
    outcome: Outcome
    visits: int | None = None
    """How often the server is asked, where it is not as often as patience allows."""
    waits_s: tuple[float, float] | None = None
    """The least and the longest time between the first two visits, by the client's clock."""
    token: dict[str, Any] | None = None
    """`{trouble: raises, fails (by the system) or hangs, always: bool}`"""
    patience_s: float = PATIENCE_S
    call: Call = "ask"
    cause: tuple[str, str] = ("", "")
    """What else the error says: the system's words to a user of Python, Node's code to one of TypeScript."""
    address: str | None = None
    """Where there is no server."""
    has_tls: bool = False
    """Whether the server has a certificate that nobody trusts."""

    @property
    def speed(self) -> float:
        """How much faster the client's clocks run. Ending takes a program some time, of which they know nothing."""
        return 1 if self.call == "leave" else SPEED

    @property
    def is_told_by_http(self) -> bool:
        """Whether HTTP tells a client something, whatever was asked for: by a status, or by how it fails."""
        first = self.acts[0] if self.acts else None
        return any(self.cause) or (isinstance(first, Status) and first.status != HTTPStatus.OK)


async def _frames(socket: ServerConnection) -> AsyncIterator[dict[str, Any]]:
    """The client's frames but `ping`, which is answered."""
    async for data in socket:
        frame = json.loads(data)
        if frame["type"] == "ping":
            await socket.send(json.dumps({"type": "pong"}))
        else:
            yield frame


async def answers(socket: ServerConnection, visits: Visits) -> None:
    async for frame in _frames(socket):
        if frame["type"] == "ask":
            visits.append(time.monotonic())
            await socket.send(json.dumps({**STARTED, "client_exchange_id": frame["client_exchange_id"]}))
        if frame["type"] in ("ask", "follow"):
            visits.append(time.monotonic())
            await socket.send(json.dumps(FINAL))


async def begins_nothing(socket: ServerConnection, visits: Visits) -> None:
    """Answers no frame but `ping`."""
    async for _ in _frames(socket):
        pass


async def swallows(socket: ServerConnection, visits: Visits) -> None:
    """A proxy whose server is gone: it answers the pings of WebSocket, as every library does, and no frame."""
    async for _ in socket:
        pass


async def begins_and_swallows(socket: ServerConnection, visits: Visits) -> None:
    async for frame in _frames(socket):
        if frame["type"] == "ask":
            await socket.send(json.dumps({**STARTED, "client_exchange_id": frame["client_exchange_id"]}))
            visits.append(time.monotonic())
            break
    await swallows(socket, visits)


def waits_for_a_person(then: Talk) -> Talk:
    """Begins what is asked, and asks back; `then` gets the socket after the first decision or stop on it."""

    async def talk(socket: ServerConnection, visits: Visits) -> None:
        async for frame in _frames(socket):
            if frame["type"] == "ask":
                await socket.send(json.dumps({**STARTED, "client_exchange_id": frame["client_exchange_id"]}))
                await socket.send(json.dumps(AWAITING))
            elif frame["type"] in ("human_resume", "stop"):
                visits.append(time.monotonic())
                break
        await then(socket, visits)

    return talk


async def refuses_it(socket: ServerConnection, visits: Visits) -> None:
    named = {"refused": "human_resume", "session_id": "s1", "exchange_id": "e1"}
    await socket.send(json.dumps(refusal("approval_not_found", **named)))
    await begins_nothing(socket, visits)


async def stops_reading(socket: ServerConnection, visits: Visits) -> None:
    """Not even a close is answered."""
    visits.append(time.monotonic())
    socket.transport.pause_reading()
    await begins_nothing(socket, visits)


def closes(code: int) -> Talk:
    async def talk(socket: ServerConnection, visits: Visits) -> None:
        visits.append(time.monotonic())
        await socket.close(code)

    return talk


def refuses(code: str, times: int, retry_after_s: float | None) -> Talk:
    """Refuses so many asks, then answers."""

    async def talk(socket: ServerConnection, visits: Visits) -> None:
        left = times
        async for frame in _frames(socket):
            if frame["type"] != "ask":
                continue
            visits.append(time.monotonic())
            names = {"client_exchange_id": frame["client_exchange_id"]}
            if left > 0:
                told = {"refused": "ask", "retryable": True, **names}
                retry = {} if retry_after_s is None else {"retry_after_s": retry_after_s}
                await socket.send(json.dumps(refusal(code, **told, **retry)))
            else:
                await socket.send(json.dumps({**STARTED, **names}))
                await socket.send(json.dumps(FINAL))
            left -= 1

    return talk


@asynccontextmanager
async def misbehaving(behaviour: Behaviour, directory: Path) -> AsyncIterator[tuple[str, Visits]]:
    """The address of a server that does what the behaviour says, and its visits."""
    visits: Visits = []
    context = None
    if behaviour.has_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(directory / "server.pem"))
    handshakes = 0

    def act() -> Status | Talk:
        return behaviour.acts[min(max(handshakes, 1), len(behaviour.acts)) - 1]

    async def process(socket: ServerConnection, request: Request) -> Response | None:
        nonlocal handshakes
        is_socket = "Upgrade" in request.headers
        handshakes += is_socket
        now = act()
        if isinstance(now, Status):
            if is_socket:
                visits.append(time.monotonic())
            headers = Headers([*now.headers.items()] * now.times, **{"Content-Length": "0"})
            return Response(now.status, HTTPStatus(now.status).phrase, headers)
        return None if is_socket else Response(200, "OK", Headers({"Content-Length": "0"}))

    async def talk(socket: ServerConnection) -> None:
        now = act()
        assert not isinstance(now, Status)
        await now(socket, visits)

    async with serve(
        *(talk, "127.0.0.1", 0),
        subprotocols=[Subprotocol("chat.v2")],
        process_request=process,
        close_timeout=1,
        ssl=context,
    ) as server:
        [listener] = server.sockets
        address = behaviour.address or f"http{'s' if context else ''}://127.0.0.1:{listener.getsockname()[1]}"
        if not behaviour.acts:
            server.close()
            await server.wait_closed()
        yield address, visits


_ANSWERED = Outcome("answered")
_REFUSES = "The server refuses the connection."
_NO_ANSWER = "No server answers"
_SILENT = "The connection is open, but carries nothing."
_NOT_TAKEN = Outcome("unreachable", None, "The server did not answer in time.")

BEHAVIOURS = [
    *(
        Behaviour(f"status-{status}", (Status(status),), Outcome("turned_away", status, _REFUSES), visits=1)
        for status in (400, 403, 404, 426)
    ),
    Behaviour("no-socket-but-a-page", (Status(200),), Outcome("turned_away", 200, _REFUSES), visits=1),
    Behaviour("status-401", (Status(401),), Outcome("turned_away", 401, "does not take the token"), visits=2),
    Behaviour("status-401-once", (Status(401), answers), _ANSWERED),
    Behaviour(
        "redirect-to-https",
        (Status(301, {"Location": "https://chat.example/agentic?token=secret"}),),
        Outcome("turned_away", 301, "The server redirects to https://chat.example/agentic."),
        visits=1,
    ),
    Behaviour(
        "endless-redirect",
        (Status(302, {"Location": "/around"}),),
        Outcome("turned_away", 302, "The server redirects to http://127.0.0.1:"),
        visits=1,
    ),
    *(
        Behaviour(f"redirect-to-{where}", (Status(302, headers),), Outcome("turned_away", 302, _REFUSES), visits=1)
        for where, headers in (("nowhere", {}), ("rubbish", {"Location": "http://["}))
    ),
    *(
        Behaviour(f"status-{status}", (Status(status),), Outcome("unreachable", status, _REFUSES))
        for status in (418, 429, 503)
    ),
    *(Behaviour(f"status-{status}-once", (Status(status), answers), _ANSWERED) for status in (408, 418, 503)),
    *(
        Behaviour(
            f"retry-after-of-{status}",
            (Status(status, {"Retry-After": "6"}), answers),
            _ANSWERED,
            waits_s=(6, 60),
            # By its own clock: 15 s are less than one of ours.
            patience_s=60,
        )
        for status in (500, 503)
    ),
    Behaviour(
        "retry-after-beyond-patience", (Status(503, {"Retry-After": "90"}),), Outcome("unreachable", 503, _REFUSES), 1
    ),
    Behaviour(
        "retry-after-a-day-beyond-patience",
        (Status(503, {"Retry-After": "Fri, 01 Jan 2999 00:00:00 GMT"}),),
        Outcome("unreachable", 503, _REFUSES),
        visits=1,
    ),
    Behaviour("retry-after-that-is-rubbish", (Status(503, {"Retry-After": "-soon"}), answers), _ANSWERED),
    Behaviour("retry-after-of-two", (Status(503, {"Retry-After": "1"}, times=2), answers), _ANSWERED),
    Behaviour(
        "nobody-listens",
        (),
        Outcome("unreachable", None, _NO_ANSWER),
        cause=("ConnectionRefusedError: [Errno 111] Connection refused", "ECONNREFUSED"),
    ),
    Behaviour(
        "unknown-host",
        (),
        Outcome("unreachable", None, _NO_ANSWER),
        cause=("gaierror: [Errno -2] Name or service not known", "ENOTFOUND"),
        address="http://nothing.invalid",
    ),
    Behaviour(
        "untrusted-certificate",
        (answers,),
        Outcome("unreachable", None, _NO_ANSWER),
        cause=(
            "SSLCertVerificationError: certificate verify failed: self-signed certificate",
            "DEPTH_ZERO_SELF_SIGNED_CERT",
        ),
        has_tls=True,
    ),
    Behaviour("closes", (closes(1011),), Outcome("unreachable", 1011, "The server has closed the connection.")),
    Behaviour("closes-where-too-many-are-open", (closes(4429),), Outcome("unreachable", 4429)),
    Behaviour("closes-with-an-unknown-code", (closes(4999), answers), _ANSWERED),
    Behaviour("swallows-all", (swallows,), Outcome("unreachable", None, _SILENT)),
    Behaviour("swallows-all-once", (swallows, answers), _ANSWERED),
    Behaviour("swallows-from-then-on", (begins_and_swallows, answers), _ANSWERED, waits_s=(0, 60)),
    *(
        Behaviour(
            f"token-{trouble}{'' if always else '-once'}",
            (answers,),
            outcome,
            token={"trouble": trouble, "always": always},
            cause=("RuntimeError: [Errno 111] Connection refused", "TypeError: ECONNREFUSED")
            if always and trouble == "fails"
            else ("", ""),
            # A function may take 30 s.
            patience_s=PATIENCE_S if always else 45,
        )
        for trouble, says in (
            ("raises", "The token function failed: "),
            ("fails", "The token function failed: "),
            ("hangs", "The token function did not return in time."),
        )
        for always, outcome in ((True, Outcome("unreachable", None, says)), (False, _ANSWERED))
    ),
    *(
        Behaviour(f"{code}-once", (refuses(code, 1, 5),), _ANSWERED, waits_s=(5, 60))
        for code in ("rate_limited", "too_many_runs", "overloaded")
    ),
    Behaviour("overloaded-twice", (refuses("overloaded", 2, 5),), Outcome("refused", "overloaded"), visits=2),
    Behaviour(
        "overloaded-without-a-time", (refuses("overloaded", 1, None),), Outcome("refused", "overloaded"), visits=1
    ),
    Behaviour("overloaded-for-too-long", (refuses("overloaded", 1, 90),), Outcome("refused", "overloaded"), visits=1),
    Behaviour("begins-nothing", (begins_nothing,), Outcome("unreachable", None, "did not begin the exchange in time")),
    Behaviour("busy", (refuses("session_busy", 1, 5),), Outcome("refused", "session_busy"), visits=1),
    *(
        behaviour
        for call in ("decide", "stop")
        for behaviour in (
            Behaviour(f"{call}-taken", (waits_for_a_person(begins_nothing),), _ANSWERED, visits=1, call=call),
            Behaviour(f"{call}-swallowed", (waits_for_a_person(swallows),), _NOT_TAKEN, visits=1, call=call),
            Behaviour(
                f"{call}-swallowed-once",
                (waits_for_a_person(swallows), waits_for_a_person(begins_nothing)),
                _ANSWERED,
                visits=2,
                patience_s=60,
                call=call,
            ),
        )
    ),
    Behaviour(
        "decide-refused",
        (waits_for_a_person(refuses_it),),
        Outcome("refused", "approval_not_found"),
        visits=1,
        call="decide",
    ),
    Behaviour(
        "decide-refused-after-it-was-swallowed",
        (waits_for_a_person(swallows), waits_for_a_person(refuses_it)),
        _ANSWERED,
        visits=2,
        patience_s=60,
        call="decide",
    ),
    Behaviour(
        "left-while-the-token-hangs",
        (answers,),
        Outcome("left"),
        token={"trouble": "hangs", "always": True},
        call="leave",
    ),
    Behaviour("left-while-the-server-reads-nothing", (stops_reading,), Outcome("left"), call="leave"),
]
