"""The log of a real process: whoever reads it may stop or go away, and floods leave few lines."""

import asyncio
import fcntl
import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
from support.chat_client import chat
from support.server_process import PATIENCE_S, serving

SMALLEST_PIPE = 4_096
ASKS = 30
FLOOD = 2_000
AT_ONCE = {"AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 0}'}


def parsed(text: str) -> list[dict[str, Any]]:
    """The lines of a log; fails if one is no JSON."""
    return [json.loads(line) for line in text.splitlines()]


async def test_a_reader_of_standard_error_that_stops_holds_nobody_up(tmp_path: Path) -> None:
    """Where a write to a full pipe blocked the event loop, the third ask was never answered."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    async with serving(cwd=tmp_path, environment=AT_ONCE, stderr=writing) as server:
        os.close(writing)
        async with chat(server.address) as client:
            for _ in range(ASKS):
                assert (await client.ask("hello"))[-1]["status"] == "ok"
        server.process.send_signal(signal.SIGTERM)
        data = b""
        while piece := await asyncio.to_thread(os.read, reading, 65_536):
            data += piece
        assert await server.ended() == 0
    os.close(reading)
    messages = [line["message"] for line in parsed(data.decode())]
    assert len(data) > 5 * SMALLEST_PIPE
    assert messages.count("exchange ended") == ASKS, "nothing was lost, as it fitted into the queue"
    assert messages[-1] != "exchange ended" and "server stopping" in messages


async def test_a_reader_of_standard_error_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    async with serving(cwd=tmp_path, environment=AT_ONCE, stderr=writing) as server:
        os.close(writing)
        os.close(reading)
        async with chat(server.address) as client:
            for _ in range(ASKS):
                assert (await client.ask("hello"))[-1]["status"] == "ok"
        assert await server.stop() == 0


async def test_a_flood_of_refusals_leaves_few_lines_whose_counts_add_up(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server, httpx.AsyncClient(base_url=server.address) as http:
        for _ in range(FLOOD // 50):
            refused = await asyncio.gather(*(http.get("/agentic/v1/sessions/nobody") for _ in range(50)))
            assert {response.status_code for response in refused} == {404}
        assert await server.stop(timeout_s=PATIENCE_S) == 0
    lines = parsed(server.stderr)
    shown = [line for line in lines if line["message"] == "request refused"]
    counted = [line for line in lines if line["message"] == "log lines suppressed"]
    print(f"figure: {FLOOD} refusals: {len(lines)} lines")
    assert len(shown) < FLOOD / 10
    assert {line["suppressed"] for line in counted} == {"request refused"}
    assert len(shown) + sum(line["count"] for line in counted) == FLOOD, "the last count comes with the end"
