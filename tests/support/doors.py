"""A client of each door. They differ only in what their door makes of an ask, of its events and of a refusal."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from uuid import uuid4

import httpx
from httpx_sse import EventSource
from websockets.exceptions import ConnectionClosed

from agentic_backend.errors import class_of
from support.chat_client import PATH, ChatClient, Event, chat, final_text
from support.rest_client import PREFIX, plain_http
from support.running_server import RunningServer

LAST_OF_OPENAI = "[DONE]"
_STATUS_OF_CLOSE = {4401: 401, 4429: 429}


@dataclass(frozen=True)
class Outcome:
    """How an answer has ended for its client. `code` is the error's if it failed."""

    status: Literal["ok", "stopped", "failed"]
    text: str
    code: str | None = None


class Refused(Exception):
    """`status` is the HTTP status, or what stands for it. `content` is empty where the door tells only a status."""

    def __init__(self, status: int, code: str = "", content: str = "") -> None:
        super().__init__(status, code, content)
        self.status, self.code, self.content = status, code, content


@dataclass(frozen=True)
class Opened:
    """The session that is asked in, and its agent."""

    id: str
    agent_id: str


class DoorClient(Protocol):
    async def ask(self, opened: Opened, message: object) -> None:
        """Ask. Raises Refused here or in `ended`."""
        ...

    async def begun(self) -> Event:
        """The first event of the answer."""
        ...

    async def ended(self) -> Outcome:
        """Read the answer to its end. Raises Refused."""
        ...

    async def leave(self) -> None:
        """Break the connection."""
        ...


@dataclass(frozen=True)
class Door:
    """`name` is that of `GET /info`, `path` is where it is asked; `message` is the field of an ask that holds what the
    user says.
    """

    name: str
    path: str
    message: str
    body: Callable[[Opened, object], dict[str, Any]]
    """The ask."""
    outcome: Callable[[Sequence[Event]], Outcome | None]
    """How the answer has ended, by its events; None if it has not."""
    error: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: dict(body["error"])
    """The error of a refused call."""
    content: str = "content"
    """The field of an error that says why in words."""
    has_session: bool = True
    stops_with_client: bool = False
    opens_sessions: bool = False
    """Whether it opens a session for a name that it does not know."""
    exchange_id: Callable[[Event], str] = lambda event: str(event["exchange_id"])
    """The id of the exchange, by the first event of an answer without a session."""
    subprotocols: Sequence[Any] | None = ()
    """What a socket offers; empty: it is no socket."""

    @property
    def is_socket(self) -> bool:
        return self.subprotocols != ()

    @asynccontextmanager
    async def client(self, server: RunningServer, token: str = "dev:alice") -> AsyncIterator[DoorClient]:
        if self.is_socket:
            async with chat(server.address, token=token, subprotocols=self.subprotocols) as socket:
                yield _SocketClient(self, socket)
        else:
            async with plain_http(base_url=server.address, headers={"Authorization": f"Bearer {token}"}) as http:
                async with AsyncExitStack() as stack:
                    yield _StreamClient(self, http, stack)


class _SocketClient:
    def __init__(self, door: Door, socket: ChatClient) -> None:
        self._door = door
        self._socket = socket

    async def ask(self, opened: Opened, message: object) -> None:
        try:
            await self._socket.send(self._door.body(opened, message))
        except ConnectionClosed as closed:
            raise _closed(closed) from closed

    async def begun(self) -> Event:
        return await self._receive()

    async def ended(self) -> Outcome:
        while (outcome := self._door.outcome(self._socket.events)) is None:
            event = await self._receive()
            # A failure of the exchange comes before its final, and has no `whose` of a refusal's frame.
            if event["type"] == "error" and "refused" in event:
                raise Refused(0, event["code"], event["content"])
        return outcome

    async def leave(self) -> None:
        self._socket.socket.transport.abort()

    async def _receive(self) -> Event:
        try:
            return await self._socket.receive()
        except ConnectionClosed as closed:
            raise _closed(closed) from closed


def _closed(closed: ConnectionClosed) -> Exception:
    code = closed.rcvd.code if closed.rcvd is not None else None
    return Refused(_STATUS_OF_CLOSE[code]) if code in _STATUS_OF_CLOSE else closed


class _StreamClient:
    def __init__(self, door: Door, http: httpx.AsyncClient, stack: AsyncExitStack) -> None:
        self._door = door
        self._http = http
        self._stack = stack
        self._events: list[Event] = []

    async def ask(self, opened: Opened, message: object) -> None:
        stream = self._http.stream(
            "POST", self._door.path.format(id=opened.id, agent=opened.agent_id), json=self._door.body(opened, message)
        )
        response = await self._stack.enter_async_context(stream)
        if response.status_code != 200 or response.headers["content-type"] == "application/json":
            error = self._door.error(json.loads(await response.aread()))
            assert error["retryable"] in (True, False) and error.get("request_id", error.get("requestId"))
            # MCP's refusals are results of calls, and have no status.
            status = response.status_code if response.status_code != 200 else class_of(error["code"]).http_status
            raise Refused(status, error["code"], error[self._door.content])
        assert response.headers["content-type"].startswith("text/event-stream")
        self._response, self._reading = response, _events(response)

    async def begun(self) -> Event:
        return await self._next()

    async def ended(self) -> Outcome:
        while (outcome := self._door.outcome(self._events)) is None:
            await self._next()
        # The stream ends with the answer.
        assert [event async for event in self._reading] == []
        return outcome

    async def leave(self) -> None:
        await self._response.aclose()

    async def _next(self) -> Event:
        self._events.append(await anext(self._reading))
        return self._events[-1]


async def _events(response: httpx.Response) -> AsyncIterator[Event]:
    """The events of a stream, whose data are JSON and name their type."""
    async for sent in EventSource(response).aiter_sse():
        if sent.data == LAST_OF_OPENAI:
            return
        event: Event = sent.json()
        # One without a name is a message to clients.
        assert sent.event in (event.get("type"), "message")
        yield event


def _of_chat_v2(events: Sequence[Event]) -> Outcome | None:
    """Of events that end with a `final`."""
    if not events or (final := events[-1])["type"] != "final":
        return None
    if final["status"] in ("ok", "stopped"):
        return Outcome(final["status"], final_text([final]) if final["status"] == "ok" else "")
    return Outcome("failed", "", final["error"]["code"])


def _of_session_stream(events: Sequence[Event]) -> Outcome | None:
    if not events or events[-1]["type"] not in ("done", "error"):
        return None
    if events[-1]["type"] == "error":
        return Outcome("failed", "", events[-1]["code"])
    if events[-1]["meta"].get("cancelled"):
        return Outcome("stopped", "")
    return Outcome("ok", _put_together(events, "chunk", "content"))


def _of_chat_runs(events: Sequence[Event]) -> Outcome | None:
    if not events or (done := events[-1])["type"] != "done":
        return None
    match done["status"]:
        case "succeeded":
            return Outcome("ok", _put_together(events, "text_delta", "text"))
        case "canceled":
            return Outcome("stopped", "")
    [error] = [event["error"] for event in events if event["type"] == "error"]
    return Outcome("failed", "", error["code"])


def _of_chat_completions(events: Sequence[Event]) -> Outcome | None:
    if events and "error" in events[-1]:
        return Outcome("failed", "", events[-1]["error"]["code"])
    choices = [choice for event in events for choice in event["choices"]]
    if not choices or (reason := choices[-1]["finish_reason"]) is None:
        return None
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    return Outcome("ok", text) if reason == "stop" else Outcome("stopped", "")


def _of_responses(events: Sequence[Event]) -> Outcome | None:
    response = (events[-1].get("response") if events else None) or {}
    match response.get("status"):
        case "completed":
            [text] = [content["text"] for item in response["output"] for content in item["content"]]
            assert text == "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
            return Outcome("ok", text)
        case "incomplete":
            return Outcome("stopped", "")
        case "failed":
            return Outcome("failed", "", response["error"]["code"])
    return None


def _of_mcp(events: Sequence[Event]) -> Outcome | None:
    if not events or "result" not in events[-1]:
        return None
    result = events[-1]["result"]
    facts = result["structuredContent"]
    if result["isError"]:
        return Outcome("failed", "", facts["error"]["code"])
    return Outcome("ok", facts["answer"]) if facts["status"] == "ok" else Outcome("stopped", "")


def _of_ag_ui(events: Sequence[Event]) -> Outcome | None:
    if not events or events[-1]["type"] not in ("RUN_FINISHED", "RUN_ERROR"):
        return None
    if events[-1]["type"] == "RUN_ERROR":
        return Outcome("failed", "", events[-1]["code"])
    if events[-1]["outcome"]["type"] == "cancelled":
        return Outcome("stopped", "")
    texts: dict[str, str] = {}
    for event in events:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
    return Outcome("ok", list(texts.values())[-1])


def _error_of_mcp(body: dict[str, Any]) -> dict[str, Any]:
    error = body["error"]["data"] if "error" in body else body["result"]["structuredContent"]["error"]
    return dict(error)


def _put_together(events: Sequence[Event], kind: str, text: str) -> str:
    """The answer's text, as a client gets it piece by piece."""
    answer = ""
    for event in events:
        if event["type"] == kind:
            answer = event[text] if event.get("replaces") else answer + event[text]
    return answer


WEBSOCKET = Door(
    "websocket",
    PATH,
    "message",
    lambda opened, message: {"type": "ask", "session_id": opened.id, "message": message},
    _of_chat_v2,
    subprotocols=["chat.v2"],
)
CLASSIC = Door(
    "classic",
    PATH,
    "message",
    lambda opened, message: {"session_id": opened.id, "message": message, "agent_id": None, "client_exchange_id": None},
    _of_chat_v2,
    subprotocols=None,
)
REST = Door(
    "rest",
    f"{PREFIX}/sessions/{{id}}/messages",
    "content",
    lambda opened, message: {"content": message},
    _of_chat_v2,
)
QUERY = Door(
    "rest, a query",
    f"{PREFIX}/query",
    "content",
    lambda opened, message: {"content": message, "agent_id": opened.agent_id},
    _of_chat_v2,
    has_session=False,
    stops_with_client=True,
)

SESSION_STREAM = Door(
    "session-stream",
    "/sessions/{id}/messages",
    "content",
    lambda opened, message: {"content": message},
    _of_session_stream,
    error=dict,
    content="error",
    stops_with_client=True,
)

CHAT_RUNS = Door(
    "chat-runs",
    "/api/chat",
    "message",
    lambda opened, message: {"message": message, "conversationId": opened.id},
    _of_chat_runs,
    content="message",
)


def _messages(message: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": message}]


OPENAI = Door(
    "openai, in a conversation",
    "/v1/chat/completions",
    "messages.0.content",
    lambda opened, message: {
        "model": opened.agent_id,
        "messages": _messages(message),
        "metadata": {"conversation_id": opened.id},
        "stream": True,
    },
    _of_chat_completions,
    content="message",
    stops_with_client=True,
    opens_sessions=True,
)
OPENAI_QUERY = replace(
    OPENAI,
    name="openai, a query",
    body=lambda opened, message: {"model": opened.agent_id, "messages": _messages(message), "stream": True},
    has_session=False,
    exchange_id=lambda event: event["id"].removeprefix("chatcmpl-"),
)
OPENAI_RESPONSES = replace(
    OPENAI,
    name="openai, responses",
    path="/v1/responses",
    message="input.0.content",
    body=lambda opened, message: {
        "model": opened.agent_id,
        "input": _messages(message),
        "conversation": opened.id,
        "stream": True,
    },
    outcome=_of_responses,
)

MCP = Door(
    "mcp",
    "/mcp",
    "message",
    lambda opened, message: {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": opened.agent_id,
            "arguments": {"message": message, "session_id": opened.id},
            "_meta": {"progressToken": "p"},
        },
    },
    _of_mcp,
    error=_error_of_mcp,
)

AG_UI = Door(
    "ag-ui",
    "/ag-ui/agents/{agent}",
    "messages.0.content",
    lambda opened, message: {
        "threadId": opened.id,
        "runId": uuid4().hex,
        "messages": [{"id": "1", "role": "user", "content": message}],
    },
    _of_ag_ui,
    stops_with_client=True,
    opens_sessions=True,
)

DOORS = (WEBSOCKET, REST, QUERY, SESSION_STREAM, CHAT_RUNS, CLASSIC, OPENAI, OPENAI_QUERY, OPENAI_RESPONSES, MCP, AG_UI)
IN_SESSIONS = [door for door in DOORS if door.has_session]
