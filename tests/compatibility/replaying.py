"""Replays a transcript: plays its client against a server of today, and compares what the server says."""

import asyncio
import json
from contextlib import AsyncExitStack
from copy import deepcopy
from typing import Any, NamedTuple

from compatibility.recording import answer_of
from compatibility.transcripts import Json, Names, Piece
from support.chat_client import ChatClient, chat
from support.rest_client import plain_http

_PATIENCE_S = 15


class Changed(AssertionError):
    """The server says something else than it said when the transcript was recorded."""


class Said(NamedTuple):
    """A frame or an event, with its place in the AsyncAPI document. It tells of the server: it receives frames."""

    channel: str
    action: str
    message: Json


async def replay(transcript: Json, address: str, user: str) -> list[Said]:
    """All that was said on sockets. Raises Changed."""
    async with AsyncExitStack() as stack:
        replaying = _Replay(address, user, frozenset(transcript["events"]), stack)
        for number, step in enumerate(transcript["steps"]):
            try:
                await replaying.take(step)
            except Changed as changed:
                raise Changed(f"step {number}: {changed}") from None
        return [said for socket in replaying.sockets.values() for said in socket.said]


class _Socket:
    def __init__(self, client: ChatClient, known: frozenset[str], channel: str) -> None:
        self.said: list[Said] = []
        self._channel = channel
        self._client = client
        self._known = known
        """The types of events that the client knows: it ignores others."""
        self._next: Json | None = None

    async def send(self, frame: Json) -> None:
        self.said.append(Said(self._channel, "receive", frame))
        await self._client.send(json.dumps(frame))

    async def event_like(self, expected: Json) -> Json:
        """The next event that counts where `expected` is expected. Raises TimeoutError."""
        while True:
            event = self._next or await self._receive()
            self._next = None
            if self._counts(event, expected):
                break
        piece = Piece(event)
        while piece.key is not None and Piece(expected).key is not None and len(piece.text) < len(Piece(expected).text):
            after = await self._receive()
            if Piece(after).key == piece.key:
                piece.add(Piece(after).text)
            elif self._counts(after, expected):
                self._next = after
                break
        return event

    def _counts(self, event: Json, expected: Json) -> bool:
        """The names of sessions and activities may come at any time."""
        if event["type"] in ("session", "activity") and event["type"] != expected["type"]:
            return False
        if event["type"] == "activity":
            return bool(event["kind"] == expected["kind"] and event["data"].keys() >= expected["data"].keys())
        return event["type"] in self._known

    async def _receive(self) -> Json:
        event = await self._client.receive(_PATIENCE_S)
        # Pieces of text are put together in the event itself.
        self.said.append(Said(self._channel, "send", deepcopy(event)))
        return event


class _Replay:
    def __init__(self, address: str, user: str, known: frozenset[str], stack: AsyncExitStack) -> None:
        self.sockets: dict[str, _Socket] = {}
        self._address = address
        self._token = f"dev:{user}"
        self._known = known
        self._stack = stack
        self._names = Names()

    async def take(self, step: Json) -> None:
        """One step. Raises Changed."""
        match step:
            case {"connect": name, "subprotocols": subprotocols}:
                client = chat(self._address, token=self._token, subprotocols=subprotocols)
                connected = await self._stack.enter_async_context(client)
                self.sockets[name] = _Socket(connected, self._known, "chat" if subprotocols else "classic")
            case {"send": name, "frame": frame}:
                await self.sockets[name].send(self._names.filled(frame))
            case {"receive": name, "event": expected}:
                try:
                    event = await self.sockets[name].event_like(expected)
                except TimeoutError:
                    raise Changed(f"no {expected['type']} has come") from None
                self._compare(expected, event)
            case {"call": _}:
                await self._call(step)
            case _:
                raise ValueError(f"no step: {step}")

    async def _call(self, step: Json) -> None:
        headers = {"authorization": f"Bearer {self._token}"}
        path, params, body = (self._names.filled(step.get(name)) for name in ("path", "params", "body"))
        async with asyncio.timeout(_PATIENCE_S), plain_http(base_url=self._address, headers=headers) as http:
            async with http.stream(step["call"], path, params=params, json=body) as response:
                answer = await answer_of(response)
        self._compare(step["status"], response.status_code)
        self._compare(step["answer"], self._as_known(answer))

    def _as_known(self, answer: Any) -> Any:
        """The answer, without the events of a stream that the client does not know."""
        if not isinstance(answer, list) or not all(isinstance(each, dict) and "type" in each for each in answer):
            return answer
        return [each for each in answer if each["type"] in self._known]

    def _compare(self, expected: Any, actual: Any) -> None:
        differences = self._names.differences(expected, actual)
        if differences:
            raise Changed("; ".join(differences))
