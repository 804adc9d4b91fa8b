"""A web server with TLS that records every connection, and every request with its headers."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.certificates import certificate

# One pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class ImageHost:
    """`requests` are the heads of the requests, in order; every answer is an image of one pixel."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.requests: list[str] = []

    @property
    def name(self) -> str:
        """The host and port, as a browser writes them."""
        return f"127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [head.split(" ", 2)[1] for head in self.requests]

    def url(self, path: str) -> str:
        return f"https://{self.name}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: %d\r\n\r\n" % len(PNG))
                writer.write(PNG)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def image_host(directory: Path) -> AsyncIterator[ImageHost]:
    """The server on a free loopback port; its self-signed certificate is in `directory`."""
    host = ImageHost()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(directory / "image-host.pem"))
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0, ssl=context)
    host.port = server.sockets[0].getsockname()[1]
    async with server:
        yield host
