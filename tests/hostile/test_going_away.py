"""Going away: nobody is held up by another's answer, and on a starved machine nothing is left unsaid."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from hostile.sizes import sized
from support.chat_client import ChatClient, Event, chat, check_exchange
from support.figures import figure
from support.further_cases import all_but_first
from support.processes import children, runs
from support.rest_client import plain_http, rest
from support.server_process import ServerProcess, serving
from websockets.exceptions import ConnectionClosed

RESTART = 1012
PATIENCE_S = 60
IDLE, STARVED = sized(200, 1_000), sized(15, 200)


class Client:
    """One socket, read to its end; `code` is the close code that it got, and `closed_at` when."""

    def __init__(self, client: ChatClient) -> None:
        self.chat = client
        self.code: int | None = None
        self.closed_at = 0.0

    async def read(self) -> None:
        try:
            while True:
                await self.chat.receive(PATIENCE_S)
        except ConnectionClosed as closed:
            self.code = closed.rcvd.code if closed.rcvd else None
        self.closed_at = time.monotonic()

    @property
    def exchange(self) -> list[Event]:
        return [event for event in self.chat.events if "seq" in event]


@asynccontextmanager
async def clients(server: ServerProcess, count: int) -> AsyncIterator[list[Client]]:
    async with AsyncExitStack() as stack:
        yield [Client(await stack.enter_async_context(chat(server.address))) for _ in range(count)]


async def test_nobody_waits_for_the_answer_of_another(directory: Path) -> None:
    """Idle sockets, those that wait for a person and those that follow over SSE go at once; the answer ends well.

    One that begins to wait for a person meanwhile goes then.
    """
    async with serving(cwd=directory) as server, clients(server, IDLE) as idle, clients(server, 3) as last:
        busy, asked, pausing = last
        await asked.chat.send({"message": "send a", "agent_id": "approved"})
        await asked.chat.until("awaiting_human")
        await busy.chat.send({"message": "words 150 10"})
        await busy.chat.until("delta")
        await pausing.chat.send({"message": "words 1 0|hold 2|send c", "agent_id": "approved"})
        await pausing.chat.until("delta")
        begun = [asyncio.Event(), asyncio.Event()]
        streams = [
            asyncio.create_task(followed(server, begun[0])),
            asyncio.create_task(asked_over_rest(server, begun[1])),
        ]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(stream.wait() for stream in begun))
        reading = [asyncio.create_task(client.read()) for client in [*idle, *last]]
        terminated_at = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*reading)
            ended_at = max(await asyncio.gather(*streams))
        assert await server.ended() == 0
    gone_s = sorted(client.closed_at - terminated_at for client in [*idle, asked])
    answered_s = busy.closed_at - terminated_at
    assert [client.code for client in [*idle, *last]] == [RESTART] * (IDLE + 3)
    assert pausing.exchange[-1]["type"] == "awaiting_human"
    assert pausing.closed_at - terminated_at < answered_s * 3 / 4
    check_exchange(busy.exchange)
    assert busy.exchange[-1]["status"] == "ok"
    assert max(gone_s[-1], ended_at - terminated_at) < answered_s / 2
    # Not all in one moment: half of them are gone when a good part of the time is over.
    # The last one may have been read late: the server takes a second for five hundred.
    assert gone_s[len(gone_s) // 2] > min(gone_s[-1], IDLE / 500) / 5
    figure(
        f"{IDLE} idle sockets, one that waits for a person and two SSE streams were gone {gone_s[-1]:.2f} s "
        f"after SIGTERM, half of them after {gone_s[len(gone_s) // 2]:.2f} s; the answer that ran ended after "
        f"{answered_s:.1f} s"
    )


async def followed(server: ServerProcess, begun: asyncio.Event) -> float:
    """When the server has ended the stream of an idle session, in order."""
    async with rest(server) as http:
        session = (await http.post("/sessions", json={})).json()
        async with http.stream("GET", f"/sessions/{session['id']}/events", timeout=PATIENCE_S) as response:
            await read_to_end(response, "idle", begun)
    return time.monotonic()


async def read_to_end(response: httpx.Response, expected: str, begun: asyncio.Event) -> None:
    """Read a stream, which must show the expected event; `begun` is set as soon as it does."""
    async for line in response.aiter_lines():
        if expected in line:
            begun.set()
    assert begun.is_set(), expected


async def asked_over_rest(server: ServerProcess, begun: asyncio.Event) -> float:
    """When the server has ended the stream of an ask that waits for a person, in order."""
    async with rest(server) as http:
        session = (await http.post("/sessions", json={"agent_id": "approved"})).json()
        path, body = f"/sessions/{session['id']}/messages", {"content": "send b"}
        async with http.stream("POST", path, json=body, timeout=PATIENCE_S) as response:
            await read_to_end(response, "awaiting_human", begun)
    return time.monotonic()


@pytest.mark.parametrize("how", all_but_first("stopped", "crowded"))
async def test_on_a_starved_machine_everybody_is_told(directory: Path, how: str) -> None:
    """Each socket gets the final of its exchange, which is cut, and a close code."""
    environment = {"AGENTIC_SERVER__GRACE_S": "0.5"}
    async with serving(cwd=directory, environment=environment) as server, clients(server, STARVED) as all_of_them:
        for client in all_of_them:
            await client.chat.send({"message": "words 100000 20"})
            await client.chat.until("delta")
        reading = [asyncio.create_task(client.read()) for client in all_of_them]
        async with starved(server, how):
            server.process.send_signal(signal.SIGTERM)
            terminated_at = time.monotonic()
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*reading)
                assert await server.ended(PATIENCE_S) == 0
            took_s = time.monotonic() - terminated_at
    told = [client.exchange[-1] for client in all_of_them]
    finals = [event["status"] for event in told if event["type"] == "final"]
    codes = [client.code for client in all_of_them]
    figure(
        f"starved ({how}), {STARVED} sockets: {len(finals)} finals, {codes.count(RESTART)} close codes, gone "
        f"after {took_s:.1f} s with a grace period of 0.5 s"
    )
    assert finals == ["interrupted"] * STARVED
    assert codes == [RESTART] * STARVED


@asynccontextmanager
async def starved(server: ServerProcess, how: str) -> AsyncIterator[None]:
    """The server gets little of the processor: it is stopped most of the time, or others crowd it out."""
    starving = asyncio.create_task(stop_and_go(server.pid)) if how == "stopped" else None
    crowd: list[asyncio.subprocess.Process] = []
    if how == "crowded":
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 2)
        for _ in range(os.cpu_count() or 2):
            crowd.append(await asyncio.create_subprocess_exec("sh", "-c", "while :; do :; done"))
    try:
        yield
    finally:
        if starving is not None:
            starving.cancel()
            await asyncio.wait({starving})
        for process in crowd:
            process.kill()
            await process.wait()


async def stop_and_go(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        try:
            while True:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(0.4)
                os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(0.1)
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_a_worker_that_drains_alone_leaves_its_clients_to_the_others(tmp_path: Path) -> None:
    """A refused ask that is sent again on a new socket is answered, while the worker still has an answer to end."""
    async with serving("--workers", 2, cwd=tmp_path) as parent:
        await parent.started(times=2)
        workers = children(parent.pid)[:2]
        inside = [inside_of(parent, worker) for worker in workers]
        async with chat(parent.address) as busy, plain_http(timeout=PATIENCE_S) as http:
            await busy.send({"message": "count down slowly from 250"})
            await busy.until("delta")
            running = [await is_running(http, address) for address in inside]
            drained = workers[running.index(True)]
            os.kill(drained, signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_S):
                while (await http.get(f"{inside[running.index(True)]}/health/ready")).status_code != 503:
                    await asyncio.sleep(0.05)
            frame = {"message": "hello", "client_exchange_id": "mine"}
            await busy.send(frame)
            refusal = await busy.until("error")
            refused = Client(busy)
            await refused.read()
            assert (refusal["code"], refused.code) == ("shutting_down", RESTART)
            began = time.monotonic()
            for _ in range(sized(20, 100)):
                async with chat(parent.address) as again:
                    events = await again.ask(**frame)
                    assert events[-1]["status"] == "ok"
            took_s = time.monotonic() - began
            assert runs(drained), "its own answer goes on"
        figure(
            f"with one of two workers draining, {sized(20, 100)} new sockets all came to the other, and were "
            f"answered within {took_s:.2f} s"
        )
        # Asked twice, nobody waits for the answer's end.
        parent.process.send_signal(signal.SIGINT)
        assert await parent.stop(signal.SIGINT, timeout_s=PATIENCE_S) == 0


async def is_running(http: httpx.AsyncClient, internal: str) -> bool:
    return "chat_running_exchanges 1.0" in (await http.get(f"{internal}/metrics")).text


def inside_of(parent: ServerProcess, worker: int) -> str:
    """Where the worker's own internal listener is, which the joint one asks."""
    listening = {
        line.split()[9]: int(line.split()[1].rpartition(":")[2], 16)
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }
    opened = [os.readlink(each) for each in Path(f"/proc/{worker}/fd").iterdir()]
    ports = {port for inode, port in listening.items() if f"socket:[{inode}]" in opened}
    [port] = ports - {httpx.URL(parent.address).port}
    return f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGINT, signal.SIGINT], [signal.SIGHUP]], ids=str)
async def test_what_a_terminal_sends_to_parent_and_workers_counts_once(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    async with serving("--workers", 2, cwd=tmp_path, start_new_session=True) as parent:
        await parent.started(times=2)
        async with clients(parent, 1) as [client]:
            await client.chat.send({"message": f"count down slowly from {600 if len(signals) > 1 else 15}"})
            await client.chat.until("delta")
            began = time.monotonic()
            for number in signals:
                os.killpg(parent.pid, number)
                await asyncio.sleep(0.5)
            if signals == [signal.SIGHUP]:
                await client.chat.until("final")
                assert await parent.stop(timeout_s=PATIENCE_S) == 0
                status = "ok"
            else:
                await client.read()
                status = client.exchange[-1]["status"]
                assert await parent.ended(PATIENCE_S) == 0
            took_s = time.monotonic() - began
        assert status == ("interrupted" if len(signals) > 1 else "ok"), json.dumps(client.exchange[-1])
        figure(f"{[number.name for number in signals]} to parent and workers: {status}, gone after {took_s:.1f} s")
