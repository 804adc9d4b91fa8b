"""What refuses as a MongoDB does: a server that refuses every sign-in, and a line to one that knows no users.

The stand-ins for MongoDB don't. The server answers only the handshake and the sign-in; see the specification of the
wire protocol for OP_QUERY, OP_REPLY and OP_MSG.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from bson import decode, encode

from support.faulty_line import FaultyLine, opened
from support.tcp_line import End

_REPLY, _QUERY, _MSG = 1, 2004, 2013
_HEAD = struct.Struct("<iiii")
_AUTHENTICATION_FAILED = 18
HELLO: dict[str, Any] = {
    "helloOk": True,
    "isWritablePrimary": True,
    "ismaster": True,
    "minWireVersion": 0,
    "maxWireVersion": 21,
    "maxBsonObjectSize": 16_777_216,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "ok": 1.0,
}


def _answer(command: dict[str, Any]) -> dict[str, Any]:
    if next(iter(command)).lower() in ("hello", "ismaster"):
        return HELLO
    return refusal(_AUTHENTICATION_FAILED, "AuthenticationFailed")


def refusal(code: int, name: str) -> dict[str, Any]:
    return {"ok": 0.0, "errmsg": "not today", "code": code, "codeName": name}


def _command(kind: int, body: bytes) -> dict[str, Any]:
    # Flags, the collection's name, how many to skip and to return; or flags, and a section of kind 0.
    at = body.index(b"\0", 4) + 9 if kind == _QUERY else 5
    return decode(body[at : at + int.from_bytes(body[at : at + 4], "little")])


def _reply(number: int, kind: int, told: dict[str, Any]) -> bytes:
    if kind == _QUERY:
        answer, kind = struct.pack("<iqii", 8, 0, 0, 1) + encode(told), _REPLY
    else:
        answer = struct.pack("<iB", 0, 0) + encode(told)
    return _HEAD.pack(_HEAD.size + len(answer), 0, number, kind) + answer


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            length, number, _, kind = _HEAD.unpack(await reader.readexactly(_HEAD.size))
            command = _command(kind, await reader.readexactly(length - _HEAD.size))
            writer.write(_reply(number, kind, _answer(command)))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        # The client has gone.
        pass
    finally:
        writer.close()


@asynccontextmanager
async def refusing_mongodb() -> AsyncIterator[str]:
    """Run it; yield its host and port."""
    server = await asyncio.start_server(_connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


class SignInLine(FaultyLine):
    """Its clients sign in with `password`, by SASL's PLAIN, as they do at a MongoDB with LDAP.

    `refuse` tells what else is answered in place of the server; None lets a command pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.password = "first"
        self.refuse: Callable[[str], dict[str, Any] | None] = lambda command: None

    def url(self, database: str) -> str:
        return f"mongodb://ann:first@127.0.0.1:{self.port}/{database}?authMechanism=PLAIN&authSource=$external"

    @asynccontextmanager
    async def another_password(self) -> AsyncIterator[None]:
        """It is changed. Connections outlive that, so they end once."""
        self.password = "changed"
        await self.cut()
        try:
            yield
        finally:
            self.password = "first"

    async def pass_on(self, client: End, server: End, swallows: Callable[[], bool]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pump(server[0], client[1], lambda: self._late_s))
            tasks.create_task(self._ask(client, server[1]))

    async def _ask(self, client: End, to_server: asyncio.StreamWriter) -> None:
        is_known = False
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await client[0].readexactly(_HEAD.size)
                length, number, _, kind = _HEAD.unpack(head)
                body = await client[0].readexactly(length - _HEAD.size)
                if self._is_black_hole:
                    continue
                command = _command(kind, body)
                name = next(iter(command))
                told = self.refuse(name)
                if name == "saslStart":
                    is_known = command["payload"].split(b"\0")[2].decode() == self.password
                    signed_in = {"ok": 1.0, "conversationId": 1, "done": True, "payload": b""}
                    told = signed_in if is_known else refusal(_AUTHENTICATION_FAILED, "AuthenticationFailed")
                elif not is_known and name.lower() not in ("hello", "ismaster"):
                    told = refusal(13, "Unauthorized")
                if told is None:
                    to_server.write(head + body)
                    await to_server.drain()
                else:
                    client[1].write(_reply(number, kind, told))
                    await client[1].drain()
        client[1].transport.abort()


def sign_in_line(target: int) -> AbstractAsyncContextManager[SignInLine]:
    """A line to the server at this loopback port."""
    return opened(SignInLine(), target)
