"""One client that floods the server with what costs it most; everybody else is answered as before.

Every flood is sent at 1 MB/s over each of four raw sockets, and measured by a process of its own.
"""

import asyncio
from pathlib import Path

import pytest
from hostile.sizes import sized
from support.attacker import Attack, attack, frame
from support.bystander import bystander
from support.figures import figure
from support.further_cases import further_but
from support.server_process import serving

FOR_S = sized(2.0, 20.0)
# The promise is 0.1; a short form shares its cores with other tests. Without the guards most floods take the server
# away for as long as they last.
SLOWER_AT_MOST_S = sized(1.0, 0.1)

TEXT, CONTINUED, PING, PONG = 0x1, 0x0, 0x9, 0xA
BEGUN = frame(TEXT, b"x", final=False)
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /agentic/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

SOCKETS = {
    "empty fragments": Attack(frame(CONTINUED, final=False), first=BEGUN),
    "fragments of one byte": Attack(frame(CONTINUED, b"x", final=False), first=BEGUN),
    "pings": Attack(frame(PING)),
    "pings of 7 bytes, their pongs read": Attack(frame(PING, b"odd one"), reads=True),
    "pongs": Attack(frame(PONG)),
    "texts that are refused": Attack(frame(TEXT, b"x"), reads=True),
    "texts that are refused, unread": Attack(frame(TEXT, b"x")),
    "empty texts": Attack(frame(TEXT), reads=True),
    "unknown fields": Attack(
        frame(TEXT, b"{" + b",".join(b'"%d":1' % number for number in range(180_000)) + b"}"), reads=True
    ),
    "unknown fields within": Attack(
        frame(
            TEXT,
            b'{"type":"human_resume","session_id":"s","exchange_id":"e","payload":{"decisions":[{'
            + b",".join(b'"%d":1' % number for number in range(180_000))
            + b"}]}}",
        ),
        reads=True,
    ),
    "rubbish in JSON": Attack(frame(TEXT, b"[" + b"{}," * 690_000 + b"1]"), reads=True),
    "frames before the handshake": Attack(frame(PING), opening=b""),
}
REQUESTS = {
    "pipelined requests": Attack(GET + b"\r\n", opening=b"", reads=True),
    "pipelined requests, unread": Attack(GET + b"\r\n", opening=b""),
    "pipelined requests that expect 100": Attack(
        POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", opening=b"", reads=True
    ),
    "chunks of one byte": Attack(b"1\r\nx\r\n", opening=b"", first=CHUNKED, reads=True),
    "chunk extensions": Attack(b"1;x=" + b"y" * 60 + b"\r\nx\r\n", opening=b"", first=CHUNKED, reads=True),
    "trailers": Attack(b"a:\r\n", opening=b"", first=CHUNKED + b"0\r\n", reads=True),
    "tiny headers": Attack(b"a:\r\n", opening=b"", first=GET, reads=True),
    "heads of many headers": Attack(GET + b"a:\r\n" * 120 + b"\r\n", opening=b"", reads=True),
    "refused handshakes": Attack(b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", opening=b""),
    "other upgrades": Attack(GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", opening=b"", reads=True),
}


async def slows_nobody_down(directory: Path, name: str, what: Attack, *, internal: bool = False) -> None:
    """The slowest of the bystander's calls takes hardly longer during the attack than before it."""
    async with serving(cwd=directory) as server:
        async with bystander(server.address, server.internal) as before:
            await asyncio.sleep(FOR_S / 2)
        assert server.internal is not None
        address = server.internal if internal else server.address
        async with attack(address, what) as done, bystander(server.address, server.internal) as during:
            await asyncio.sleep(FOR_S)
        assert await server.stop() == 0
        assert "Traceback" not in server.stderr
    slower_s = max(during.slowest_s[name] - before.slowest_s[name] for name in before.slowest_s)
    print(
        f"{done['sent']} bytes, {done['opened']} connections; "
        f"slowest {max(before.slowest_s.values()):.3f} s before, {max(during.slowest_s.values()):.3f} s during"
    )
    figure(f"{name}: others {slower_s * 1000:.0f} ms slower")
    assert slower_s < SLOWER_AT_MOST_S + during.room_s


@pytest.mark.parametrize("name", further_but(["texts that are refused"], SOCKETS))
async def test_a_flooding_socket_slows_nobody_down(directory: Path, name: str) -> None:
    await slows_nobody_down(directory, name, SOCKETS[name])


@pytest.mark.parametrize("name", further_but(["trailers"], REQUESTS))
async def test_flooding_requests_slow_nobody_down(directory: Path, name: str) -> None:
    await slows_nobody_down(directory, name, REQUESTS[name])


async def test_a_flood_of_the_internal_listener_slows_nobody_down(directory: Path) -> None:
    name = "pipelined requests"
    await slows_nobody_down(directory, name, REQUESTS[name], internal=True)
