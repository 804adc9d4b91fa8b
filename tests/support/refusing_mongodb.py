"""A server of MongoDB's wire protocol that refuses every sign-in, as a MongoDB refuses a wrong password.

The stand-ins for MongoDB know no users. It answers only the handshake and the sign-in; see the specification of the
wire protocol for OP_QUERY, OP_REPLY and OP_MSG.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bson import decode, encode

_REPLY, _QUERY, _MSG = 1, 2004, 2013
_HEAD = struct.Struct("<iiii")
_AUTHENTICATION_FAILED = 18


def _answer(command: dict[str, Any]) -> dict[str, Any]:
    if next(iter(command)).lower() in ("hello", "ismaster"):
        told = {"helloOk": True, "isWritablePrimary": True, "ismaster": True, "minWireVersion": 0, "maxWireVersion": 21}
        sizes = {"maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000}
        return {**told, **sizes, "ok": 1.0}
    failed = {"code": _AUTHENTICATION_FAILED, "codeName": "AuthenticationFailed"}
    return {"ok": 0.0, "errmsg": "Authentication failed.", **failed}


def _reply(number: int, kind: int, body: bytes) -> bytes:
    if kind == _QUERY:
        # Flags, the collection's name, how many to skip and to return, then the command.
        command = body[body.index(b"\0", 4) + 9 :]
        answer, kind = struct.pack("<iqii", 8, 0, 0, 1) + encode(_answer(decode(command))), _REPLY
    else:
        # Flags, and a section of kind 0: the command.
        answer = struct.pack("<iB", 0, 0) + encode(_answer(decode(body[5:])))
    return _HEAD.pack(_HEAD.size + len(answer), 0, number, kind) + answer


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            length, number, _, kind = _HEAD.unpack(await reader.readexactly(_HEAD.size))
            writer.write(_reply(number, kind, await reader.readexactly(length - _HEAD.size)))
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
