"""Several servers on one MongoDB and one Redis, or workers on their own: any of them serves any session."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.chat_client import ChatClient, chat, check_exchange
from support.log_lines import log_lines, reasons
from support.processes import children, runs
from support.rest_client import plain_http
from support.server_process import PATIENCE_S, ServerProcess, command, serving

pytestmark = pytest.mark.redis

SLOW = {"AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 20}'}
COUNT = "count down slowly from {}"
# Six seconds: it still runs when a follower comes late. Where it is stopped, it may be longer.
LONG, LONGER = 30, 200


@pytest.fixture
async def servers(mongodb_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[list[ServerProcess]]:
    arguments = ["--store", mongodb_url, "--broadcast", redis_url]
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serving(*arguments, cwd=tmp_path, environment=SLOW)) for _ in range(2)]


async def asked(client: ChatClient, numbers: int, **fields: object) -> str:
    """The session of an exchange that counts down, five numbers a second, and has begun to write."""
    await client.send({"type": "ask", "message": COUNT.format(numbers), **fields})
    return str((await client.until("delta"))["session_id"])


async def test_what_runs_on_one_is_followed_on_another(servers: list[ServerProcess]) -> None:
    here, there = servers
    async with chat(here.address) as running, chat(there.address) as following:
        session_id = await asked(running, LONG)
        await following.send({"type": "follow", "session_id": session_id})
        assert (await following.until("delta"))["session_id"] == session_id
        finals = [await running.until("final"), await following.until("final")]
        assert finals[0]["messages"] == finals[1]["messages"]
        for client in (running, following):
            check_exchange([event for event in client.events if "seq" in event])
        async with plain_http() as http:
            metrics = (await http.get(f"{there.internal}/metrics")).text
        assert 'chat_dependency_up{dependency="broadcast"} 1.0' in metrics


async def test_a_tab_on_another_sees_the_next_exchange_and_stops_it(servers: list[ServerProcess]) -> None:
    here, there = servers
    async with chat(here.address) as running, chat(there.address) as tab:
        session_id = (await running.ask("hello"))[0]["session_id"]
        await tab.send({"type": "follow", "session_id": session_id})
        await tab.until("idle")
        await asked(running, LONGER, session_id=session_id)
        await tab.until("delta")
        await tab.send({"type": "stop", "session_id": session_id})
        finals = [await running.until("final"), await tab.until("final")]
        assert {final["status"] for final in finals} == {"stopped"}
        assert finals[0]["messages"] == finals[1]["messages"]
        check_exchange(await tab.ask("and now?", session_id=session_id))


async def test_an_ask_that_is_sent_again_to_another_is_followed_there(servers: list[ServerProcess]) -> None:
    here, there = servers
    async with chat(here.address) as first, chat(there.address) as second:
        session_id = await asked(first, LONG, client_exchange_id="once")
        again = await second.ask(COUNT.format(LONG), session_id=session_id, client_exchange_id="once")
        final = await first.until("final")
        assert (again[-1]["exchange_id"], again[-1]["messages"]) == (final["exchange_id"], final["messages"])


async def test_a_list_of_sessions_hears_of_all_instances(servers: list[ServerProcess]) -> None:
    here, there = servers
    async with chat(here.address) as running, chat(there.address) as page, plain_http(base_url=here.address) as http:
        await page.send({"type": "follow_sessions"})
        await page.until("following_sessions")

        async def told(status: str | None, **values: object) -> None:
            while True:
                event = await page.until("session")
                shown = {name: event["session"][name] for name in values}
                if (event["session"]["id"], event.get("status"), shown) == (session_id, status, values):
                    return

        session_id = await asked(running, LONGER)
        await told("running")
        path = f"/agentic/v1/sessions/{session_id}"
        await http.patch(path, json={"title": "Told", "pinned": True})
        await told("running", title="Told", pinned=True)
        await running.send({"type": "stop", "session_id": session_id})
        await told("stopped")
        await http.delete(path)
        assert (await page.until("session_deleted"))["session_id"] == session_id


async def test_workers_share_a_port_and_are_replaced(shared: list[str], tmp_path: Path) -> None:
    async with serving(*shared, "--workers", 2, cwd=tmp_path, environment=SLOW) as parent:
        await parent.started(times=2)
        workers = children(parent.pid)
        # The third is their internal listener.
        assert len(workers) == 3 and len({line.split(",")[0] for line in parent.stdout.splitlines()}) == 1
        os.kill(workers[0], signal.SIGKILL)
        await parent.started(times=3)
        assert "worker ended" in [line["message"] for line in log_lines(parent.stderr)]
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(chat(parent.address)) for _ in range(8)]
            pages = [await stack.enter_async_context(chat(parent.address)) for _ in range(4)]
            for page in pages:
                await page.send({"type": "follow_sessions"})
                await page.until("following_sessions")
            session_id = await asked(clients[0], LONG)
            for client in clients[1:]:
                await client.send({"type": "follow", "session_id": session_id})
            for page in pages:
                assert (await page.until("session"))["session"]["id"] == session_id
            finals = [await client.until("final") for client in clients]
        assert all(final["messages"] == finals[0]["messages"] for final in finals)
        assert await parent.stop() == 0
        assert not any(map(runs, workers))


async def test_workers_end_with_their_parent(mongodb_url: str, redis_url: str, tmp_path: Path) -> None:
    arguments = ["--store", mongodb_url, "--broadcast", redis_url, "--workers", 2]
    async with serving(*arguments, cwd=tmp_path) as parent:
        # The first worker may have started before the parent comes to the second.
        await parent.started(times=2)
        workers = children(parent.pid)
        parent.process.kill()
        # Its output ends when nobody is left to write it.
        await parent.ended()
        async with asyncio.timeout(PATIENCE_S):
            while any(map(runs, workers)):
                await asyncio.sleep(0.05)
        assert len(workers) == 3


async def test_workers_that_can_not_start_end_their_parent(tmp_path: Path) -> None:
    needs = ["--broadcast", "redis://127.0.0.1:1/0", "--store", "mongodb://127.0.0.1:1/chat"]
    # A worker that takes ten seconds to fail counts as one that had started.
    brief = {"AGENTIC_STORE__TIMEOUT_S": "1"}
    async with command("serve", "--port", 0, "--workers", 2, *needs, cwd=tmp_path, environment=brief) as server:
        assert await server.ended() == 1
        assert "mongodb://127.0.0.1:1/chat" in reasons(server.stderr)[0]


async def test_a_server_starts_without_its_redis_and_says_so(mongodb_url: str, tmp_path: Path) -> None:
    redis = "redis://:s3cret@127.0.0.1:1/0"
    async with serving("--store", mongodb_url, "--broadcast", redis, cwd=tmp_path) as server:
        async with chat(server.address) as client:
            check_exchange(await client.ask("hello"))
        async with asyncio.timeout(PATIENCE_S):
            while "the broadcast is away" not in server.stderr:
                await asyncio.sleep(0.05)
        await asyncio.sleep(2)
        assert server.stderr.count("the broadcast is away") == 1
        # Soon, though the broadcast is away.
        async with plain_http(timeout=5) as http:
            assert 'dependency="broadcast"} 0.0' in (await http.get(f"{server.internal}/metrics")).text
        assert await server.stop() == 0
        assert "s3cret" not in server.stdout + server.stderr


async def test_a_wrong_address_of_redis_is_not_shown(tmp_path: Path) -> None:
    async with command("validate", "--broadcast", "http://ann:s3cret@redis", cwd=tmp_path) as server:
        assert await server.ended() == 2
        assert "broadcast: must be like redis://" in server.stderr and "s3cret" not in server.stderr
