"""Workers on one SQLite file: what a killed one ran is ended by another one, and by the next server."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

from support.chat_client import ChatClient, chat
from support.processes import children
from support.rest_client import rest
from support.server_process import ServerProcess, serving
from support.stored_session import ended, stored_session
from websockets.exceptions import ConnectionClosed

WORKERS, EXCHANGES, KEPT_S = 2, 6, 3
SLOW = {"AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 20}'}
BRIEF_LEASE = {"AGENTIC_RELAY__LEASE_S": "3"}


async def writing(opened: AsyncExitStack, server: ServerProcess) -> dict[str, ChatClient]:
    """The clients of exchanges that write for a minute, by these; each client is at any of the workers."""
    clients = {}
    for _ in range(EXCHANGES):
        client = await opened.enter_async_context(chat(server.address))
        await client.send({"type": "ask", "message": "count down slowly from 300"})
        clients[str((await client.until("delta"))["exchange_id"])] = client
    return clients


async def stop(client: ChatClient, exchange_id: str) -> str:
    """How the exchange ends for a client that stops it; `lost` if its worker is gone."""
    try:
        await client.send({"type": "stop", "exchange_id": exchange_id})
        return str((await client.until("final"))["status"])
    except ConnectionClosed:
        return "lost"


async def test_another_worker_ends_what_a_killed_one_ran(tmp_path: Path) -> None:
    async with (
        serving("--workers", WORKERS, cwd=tmp_path, environment=SLOW | BRIEF_LEASE) as server,
        AsyncExitStack() as opened,
    ):
        await server.started(times=WORKERS)
        clients = await writing(opened, server)
        os.kill(children(server.pid)[0], signal.SIGKILL)
        await server.started(times=WORKERS + 1)
        seen = {exchange_id: await stop(client, exchange_id) for exchange_id, client in clients.items()}
        async with rest(server) as http:
            stored = {exchange_id: await ended(http, exchange_id) for exchange_id in clients}
    assert {stored[exchange_id] for exchange_id, status in seen.items() if status == "lost"} <= {"interrupted"}
    assert {stored[exchange_id] for exchange_id, status in seen.items() if status != "lost"} <= {"stopped"}


async def test_the_next_server_ends_what_killed_workers_ran(tmp_path: Path) -> None:
    async with (
        serving("--workers", WORKERS, cwd=tmp_path, environment=SLOW) as server,
        AsyncExitStack() as opened,
    ):
        await server.started(times=WORKERS)
        clients = await writing(opened, server)
        # Until the last one's text has been kept.
        await asyncio.sleep(KEPT_S)
        workers = children(server.pid)
        server.process.kill()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        await server.ended()
    async with serving("--workers", WORKERS, cwd=tmp_path, environment=SLOW) as server:
        await server.started(times=WORKERS)
        async with rest(server) as http:
            records = [(await http.get(f"/exchanges/{exchange_id}")).json() for exchange_id in clients]
            assert {record["status"] for record in records} == {"interrupted"}, "at once, not after a lease"
            for record in records:
                [exchange] = await stored_session(http, record["session_id"])
                assert "300" in str(exchange.messages[1:]), "its text is kept"
