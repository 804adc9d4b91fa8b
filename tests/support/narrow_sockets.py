"""Clients that read slowly or not at all: their sockets have tiny receive buffers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from support.chat_client import ChatClient, chat


@asynccontextmanager
async def narrow_socket(address: str) -> AsyncIterator[socket.socket]:
    """A socket with a tiny receive buffer, connected to the server."""
    parts = urlsplit(address)
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, (parts.hostname, parts.port))
        yield narrow


@asynccontextmanager
async def deaf_chat(address: str, **options: Any) -> AsyncIterator[ChatClient]:
    """A client that does not read unless it calls `receive`."""
    # No closing handshake at the end: there is nobody to answer it.
    async with (
        narrow_socket(address) as narrow,
        chat(address, sock=narrow, max_queue=1, close_timeout=0.1, **options) as client,
    ):
        yield client


@asynccontextmanager
async def deaf_post(address: str, path: str, body: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A POST whose answer is not read unless the reader is."""
    async with narrow_socket(address) as narrow:
        reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        try:
            yield reader
        finally:
            writer.transport.abort()
