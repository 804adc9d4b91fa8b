"""What uvicorn says is in the log's one form, and has nothing of a request but that it was bad."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.chat_client import chat
from support.log_lines import log_lines
from support.server_process import serving
from websockets.exceptions import ConnectionClosed

CANARY = "quokkazorblax"


async def test_uvicorns_own_lines_have_the_one_form(tmp_path: Path) -> None:
    environment = {"AGENTIC_LOG__PACKAGES": '["uvicorn", "websockets"]'}
    async with serving("--log-level", "debug", cwd=tmp_path, environment=environment) as server:
        host, port = urlsplit(server.address).hostname, urlsplit(server.address).port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"{CANARY} is no HTTP\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        # Uvicorn says who connects to a WebSocket, with the query string.
        async with chat(server.address, query=f"?token={CANARY}") as client:
            with pytest.raises(ConnectionClosed):
                await client.ask("hello")
        assert await server.stop() == 0
    # Fails if a line is no JSON.
    lines = log_lines(server.stderr)
    said = [line["message"] for line in lines if line["logger"].startswith("uvicorn")]
    for what in ("Started server process", '"WebSocket '):
        assert [message for message in said if what in message], said
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert CANARY not in server.stdout + server.stderr
