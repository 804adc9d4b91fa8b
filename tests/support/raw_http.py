"""Raw requests, byte by byte as they are given, and their answers, of which nothing may be left over."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPMessage, HTTPResponse
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from support.chat_client import PATIENCE_S


@dataclass(frozen=True)
class Answer:
    status: int
    headers: HTTPMessage
    body: bytes


class _Received(BytesIO):
    """Stands for a connection whose answers are read one after the other."""

    def makefile(self, *_: Any, **__: Any) -> "_Received":
        return self

    def close(self) -> None:
        """The next answer is read from it too."""


def answers_in(received: bytes, methods: Sequence[str] = ()) -> list[Answer]:
    """The answers that a closed connection has brought, without those that are informational (1xx).

    `methods` are those of the requests, by default no HEAD. Fails on anything that is no answer.
    """
    left, answers = _Received(received), list[Answer]()
    while left.tell() < len(received):
        method = methods[len(answers)] if len(answers) < len(methods) else "GET"
        read = HTTPResponse(left, method=method)  # type: ignore[arg-type]
        read.begin()
        if read.status >= 200:
            answers.append(Answer(read.status, read.headers, read.read()))
    return answers


async def received_for(address: str, *pieces: bytes, ends: bool = False, pause_s: float = 0.0) -> bytes:
    """What a connection brings until the server closes it. `ends`: the client ends its side after the last piece."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        # A server that refuses the first piece need not read the last one.
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)
            if ends:
                writer.write_eof()
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def answered(address: str, *pieces: bytes, methods: Sequence[str] = (), ends: bool = False) -> list[Answer]:
    """The answers to requests of which the last one, or its refusal, closes the connection."""
    return answers_in(await received_for(address, *pieces, ends=ends), methods)
