"""Recording: a client's talk with a server, of which it notes all that is said."""

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from copy import deepcopy
from typing import Any

import httpx
from compatibility.transcripts import Json, Masks, joined
from support.chat_client import ChatClient, chat
from support.rest_client import plain_http, sse_events


class Recording:
    """One user's talk with a server, over any number of sockets and calls."""

    def __init__(self, address: str, user: str, stack: AsyncExitStack) -> None:
        self.steps: list[Json] = []
        self._address = address
        self._token = f"dev:{user}"
        self._stack = stack
        self._masks = Masks()
        self._sockets: dict[str, ChatClient] = {}

    async def connect(self, socket: str = "first", *, classic: bool = False) -> None:
        subprotocols = None if classic else ["chat.v2"]
        client = chat(self._address, token=self._token, subprotocols=subprotocols)
        self._sockets[socket] = await self._stack.enter_async_context(client)
        self.steps.append({"connect": socket, "subprotocols": subprotocols})

    async def send(self, frame: Json, socket: str = "first") -> None:
        if own := frame.get("client_exchange_id"):
            self._masks.keep(own)
        self.steps.append({"send": socket, "frame": self._masks.of(frame)})
        await self._sockets[socket].send(json.dumps(frame))

    async def until(self, *types: str, socket: str = "first", when: Callable[[list[Json]], bool] | None = None) -> Json:
        """The next event of one of these types, the last of those for which `when` is true of all joined ones."""
        events: list[Json] = []
        while True:
            event = await self._sockets[socket].receive()
            if not (event["type"] in types or _comes_always(event)):
                continue
            events = joined([*events, deepcopy(event)])
            if event["type"] in types and (when is None or when(events)):
                break
        self.steps += [{"receive": socket, "event": self._masks.of(each, said_by_server=True)} for each in events]
        return event

    async def call(self, method: str, path: str, *, params: Json | None = None, body: Json | None = None) -> Any:
        """The JSON answer of a REST call; the events where it is a stream."""
        for name in ("client_exchange_id", "runId"):
            if body is not None and name in body:
                self._masks.keep(body[name])
        step: Json = {"call": method, "path": path, "params": params, "body": body}
        step = {name: self._masks.of(value) for name, value in step.items() if value is not None}
        async with plain_http(base_url=self._address, headers={"authorization": f"Bearer {self._token}"}) as http:
            async with http.stream(method, path, params=params, json=body) as response:
                answer = await answer_of(response)
        step |= {"status": response.status_code, "answer": self._masks.of(deepcopy(answer), said_by_server=True)}
        self.steps.append(step)
        return answer


def _comes_always(event: Json) -> bool:
    """Whether it comes each time, unlike a session's title, and what is told of code that blocks the event loop."""
    return event["type"] != "session" and "blocked_ms" not in event.get("data", {})


async def answer_of(response: httpx.Response) -> Any:
    """The JSON of an answer, or the joined events of a stream that come always; None where there is no body."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return joined([event async for event in sse_events(response) if _comes_always(event)])
    data = await response.aread()
    return json.loads(data) if data else None
