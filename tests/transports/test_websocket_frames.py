"""Frames as no library would send them: how many, how small, how large, and what comes behind a close."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest
from support.attacker import UPGRADE, frame
from support.chat_client import PATIENCE_S, chat
from support.running_server import RunningServer, running_server
from support.signing_realm import SigningRealm
from support.test_agents import ENTRIES
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from agentic_backend.transports.socket.connection import PATH

CONTINUED, TEXT, CLOSE, PING, PONG = 0x0, 0x1, 0x8, 0x9, 0xA
HELLO = b'{"type":"ping"}'


@dataclass
class RawSocket:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> tuple[int, bytes]:
        """The next frame of the server: its opcode and payload."""
        async with asyncio.timeout(PATIENCE_S):
            first, size = await self.reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await self.reader.readexactly(2), "big")
            return first & 0x0F, await self.reader.readexactly(size)

    async def close_code(self) -> int:
        """What the server closes with; whatever it sends before is skipped."""
        while True:
            opcode, payload = await self.receive()
            if opcode == CLOSE:
                return int(struct.unpack("!H", payload[:2])[0])

    async def until_dropped(self) -> None:
        """Go on sending, until the connection is gone."""
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                while True:
                    self.writer.write(frame(PONG, b"x" * 100) * 100)
                    await self.writer.drain()
                    await asyncio.sleep(0.01)

    async def ended(self) -> bytes:
        """What comes until the server has closed the connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()


@asynccontextmanager
async def raw_socket(server: RunningServer) -> AsyncIterator[RawSocket]:
    parts = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(UPGRADE)
        async with asyncio.timeout(PATIENCE_S):
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        yield RawSocket(reader, writer)
    finally:
        writer.transport.abort()


@pytest.fixture
async def strict_server(tmp_path: Path, realm: SigningRealm) -> AsyncIterator[RunningServer]:
    """A server whose users sign in."""
    settings = {
        "auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url}},
        # Longer than any flood takes to be noticed.
        "limits": {"authenticate_timeout_s": PATIENCE_S},
    }
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        yield server


def authenticate(realm: SigningRealm) -> bytes:
    return frame(TEXT, orjson.dumps({"type": "authenticate", "access_token": realm.sign()}))


# So many that they are too many also in two seconds of the server's clock.
MANY = 4_000
FLOODS = {
    "pings": frame(PING, b"odd") * MANY,
    "pongs": frame(PONG) * MANY,
    "empty fragments": frame(TEXT, final=False) + frame(CONTINUED, final=False) * MANY,
    "fragments of one byte": frame(TEXT, b"x", final=False) + frame(CONTINUED, b"x", final=False) * MANY,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_too_many_small_frames_close_with_1008_and_then_the_connection_is_dropped(
    strict_server: RunningServer, server: RunningServer, flood: bytes
) -> None:
    for address in (server, strict_server):
        async with raw_socket(address) as attacker:
            attacker.writer.write(flood)
            assert await attacker.close_code() == 1008
            await attacker.until_dropped()


async def test_too_many_fragments_of_one_message_close_with_1008_however_slowly_they_come(
    server: RunningServer,
) -> None:
    async with raw_socket(server) as attacker:
        attacker.writer.write(frame(TEXT, b"x", final=False))
        for _ in range(11):
            attacker.writer.write(frame(CONTINUED, b"x", final=False) * 100)
            await asyncio.sleep(0.15)
        assert await attacker.close_code() == 1008


async def test_control_frames_at_an_honest_pace_close_nothing(server: RunningServer) -> None:
    async with raw_socket(server) as client:
        for _ in range(3):
            client.writer.write((frame(PING, b"x") + frame(PONG, b"y")) * 400)
            # The next ones only a second after the server has read these.
            assert [await client.receive() for _ in range(400)] == [(PONG, b"x")] * 400
            await asyncio.sleep(1.1)
        client.writer.write(frame(TEXT, HELLO))
        assert await client.receive() == (TEXT, b'{"type":"pong"}')


async def test_a_message_of_a_thousand_fragments_is_heard(server: RunningServer) -> None:
    message = orjson.dumps({"type": "follow", "session_id": "s" * 100, "wizard": "w" * 1_500_000})
    pieces = [message[start : start + 1_500] for start in range(0, len(message), 1_500)]
    async with raw_socket(server) as client:
        client.writer.write(frame(TEXT, pieces[0], final=False))
        client.writer.write(b"".join(frame(CONTINUED, piece, final=False) for piece in pieces[1:-1]))
        client.writer.write(frame(PING, b"between") + frame(CONTINUED, pieces[-1]))
        assert await client.receive() == (PONG, b"between")
        opcode, payload = await client.receive()
    assert opcode == TEXT and orjson.loads(payload)["content"] == "wizard: unknown field"


async def test_nothing_behind_a_close_is_heard(server: RunningServer) -> None:
    ask = frame(TEXT, orjson.dumps({"message": "hello", "agent_id": "echo", "client_exchange_id": "late"}))
    async with raw_socket(server) as client:
        client.writer.write(frame(CLOSE, struct.pack("!H", 1000)) + ask + frame(PING) * 100)
        assert await client.close_code() == 1000
        assert await client.ended() == b""
    async with chat(server.address) as other:
        events = await other.ask("again", agent_id="echo", client_exchange_id="late")
        assert events[0]["type"] == "started" and "again" in str(events[1])


@pytest.mark.parametrize("in_fragments", [False, True])
async def test_until_it_has_signed_in_a_socket_sends_little(
    strict_server: RunningServer, realm: SigningRealm, in_fragments: bool
) -> None:
    def sent(size: int) -> bytes:
        if not in_fragments:
            return frame(TEXT, b"x" * size)
        return frame(TEXT, b"x" * (size // 2), final=False) + frame(CONTINUED, b"x" * (size - size // 2))

    async with raw_socket(strict_server) as client:
        client.writer.write(sent(65_537))
        assert await client.close_code() == 1009
    async with raw_socket(strict_server) as client:
        client.writer.write(sent(65_536))
        assert await client.close_code() == 4401
    async with raw_socket(strict_server) as client:
        # Nothing answers `authenticate`, so clients send on at once.
        client.writer.write(authenticate(realm) + sent(500_000) + frame(TEXT, HELLO))
        assert orjson.loads((await client.receive())[1])["code"] == "bad_frame"
        assert await client.receive() == (TEXT, b'{"type":"pong"}')


async def test_what_comes_before_the_handshake_is_answered_waits_for_it(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(UPGRADE + frame(PING, b"early") + frame(TEXT, HELLO))
    async with asyncio.timeout(PATIENCE_S):
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    client = RawSocket(reader, writer)
    assert await client.receive() == (PONG, b"early")
    assert await client.receive() == (TEXT, b'{"type":"pong"}')
    writer.transport.abort()


async def test_frames_are_answered_in_their_order(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        for number in range(20):
            await client.send({"type": "stop", "session_id": f"none-{number}"})
            await client.send({"type": "ping"})
        answers = [await client.receive() for _ in range(40)]
    assert [answer.get("session_id", answer["type"]) for answer in answers] == [
        told for number in range(20) for told in (f"none-{number}", "pong")
    ]


async def test_a_long_answer_comes_in_fragments_and_pings_are_answered_meanwhile(server: RunningServer) -> None:
    url = server.address.replace("http", "ws", 1) + PATH
    text = "ü🙂 " * 30_000
    async with connect(url, subprotocols=[Subprotocol("chat.v2")], max_size=None) as socket:
        await socket.send(orjson.dumps({"message": text, "agent_id": "echo"}).decode())
        async with asyncio.timeout(PATIENCE_S):
            while True:
                fragments = [fragment async for fragment in socket.recv_streaming()]
                await (await socket.ping())
                event = orjson.loads("".join(map(str, fragments)))
                if event["type"] == "final":
                    break
    assert len(fragments) > 2
    assert text in event["messages"][0]["parts"][0]["text"] and text in event["messages"][-1]["parts"][0]["text"]
