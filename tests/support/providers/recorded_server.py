"""A server that answers each request with recorded bytes, in packets as they were cut, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nx-request-id: req_of_the_tests\r\n"
    b"request-id: req_of_the_tests\r\ntransfer-encoding: chunked\r\n\r\n"
)


@asynccontextmanager
async def recorded_server(
    packets: Sequence[bytes], *, breaks: bool = False, then_every_s: tuple[bytes, float] | None = None
) -> AsyncIterator[str]:
    """Yields its address. With `breaks` the connection ends after the packets, but not the response.

    With `then_every_s` the response goes on with that packet, as often, until the client is gone or the server ends.
    """
    answers: set[asyncio.Task[None] | None] = set()
    ending = asyncio.Event()

    async def write(writer: asyncio.StreamWriter, packet: bytes) -> None:
        writer.write(b"%x\r\n%s\r\n" % (len(packet), packet))
        await writer.drain()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.add(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        await reader.readexactly(int(length))
        writer.write(_HEAD)
        with suppress(ConnectionError):
            for packet in packets:
                await write(writer, packet)
                # Its own segment, which is read by itself.
                await asyncio.sleep(0)
            while then_every_s and not ending.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), then_every_s[1])
                await write(writer, then_every_s[0])
            if not breaks:
                writer.write(b"0\r\n\r\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield "http://{}:{}".format(*server.sockets[0].getsockname())
        ending.set()
        await asyncio.gather(*(task for task in answers if task is not None))
