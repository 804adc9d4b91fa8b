"""Three instances whose database is slow and loses requests and answers: each exchange has one end, as it is stored."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hostile.sizes import sized
from support.chat_client import Event, check_calls
from support.durable_client import DurableClient
from support.fault_agents import notes
from support.figures import figure
from support.lossy_line import LossyLine, lossy_line
from support.rest_client import rest
from support.server_process import ServerProcess, serving
from support.stored_session import ended, stored_session

INSTANCES, LEASE_S = 3, 5
CLIENTS, ASKS = sized((6, 2), (6, 8))
LATE_S, SHARE = 0.005, 0.04
SCRIPT = "words 20 50 | note {name} | words 5 0 | note {name} | words 10 50"

pytestmark = pytest.mark.mongodb


@pytest.fixture
async def line(mongodb_url: str) -> AsyncIterator[LossyLine]:
    async with lossy_line(7, LATE_S) as line:
        target = urlsplit(mongodb_url).port
        assert target is not None
        line.target = target
        yield line


@pytest.fixture
async def instances(directory: Path, mongodb_url: str, line: LossyLine) -> AsyncIterator[list[ServerProcess]]:
    url = mongodb_url.replace(f":{line.target}/", f":{line.port}/")
    environment = {"AGENTIC_RELAY__LEASE_S": str(LEASE_S)}
    async with AsyncExitStack() as running:
        yield [
            await running.enter_async_context(serving("--store", url, cwd=directory, environment=environment))
            for _ in range(INSTANCES)
        ]


async def test_each_exchange_ends_once_over_a_store_that_loses_requests_and_answers(
    instances: list[ServerProcess], line: LossyLine, directory: Path
) -> None:
    statuses = Counter[str]()

    async def chat(number: int) -> None:
        server = instances[number % INSTANCES]
        for ask in range(ASKS):
            client = DurableClient(lambda: server.address, user=f"user-{number}", patience_s=sized(100, 300))
            final = await client.ask(SCRIPT.format(name=f"{number}-{ask}"))
            statuses[final["status"]] += 1
            seen.append((number, final))

    seen: list[tuple[int, Event]] = []
    line.share = SHARE
    async with asyncio.TaskGroup() as chats:
        for number in range(CLIENTS):
            chats.create_task(chat(number))
    line.share = 0
    for number, final in seen:
        elsewhere = instances[(number + 1) % INSTANCES]
        async with rest(elsewhere, f"dev:user-{number}") as http:
            [exchange] = await stored_session(http, final["session_id"])
        assert (exchange.status, exchange.messages) == (final["status"], final["messages"])
        follower = DurableClient(partial(getattr, elsewhere, "address"), user=f"user-{number}")
        assert (await follower.follow(final["exchange_id"]))["messages"] == final["messages"]
    keys = [key for _, key in notes(directory)]
    assert len(keys) == len(set(keys)), "no tool has run twice"
    assert line.lost_answers and line.lost_requests
    assert statuses["ok"] >= 0.9 * len(seen), "what the store has done is known, and goes on"
    figure(
        f"{line.lost_requests} requests and {line.lost_answers} answers of the database lost, {len(seen)} "
        f"exchanges at {INSTANCES} instances: one end each, as it is stored ({dict(statuses)})"
    )


@pytest.mark.further
async def test_an_owner_that_was_frozen_in_a_tool_stores_its_result_once(
    instances: list[ServerProcess], directory: Path
) -> None:
    """The tool ends while its owner stands still for longer than its lease, and another instance ends the exchange."""
    first, other = instances[:2]
    client = DurableClient(lambda: first.address)
    asking = asyncio.create_task(client.ask("words 5 0 | pause 1 | words 20 50"))
    while client.shown.channels.count("tool_call") == 0:
        await asyncio.sleep(0.01)
    first.process.send_signal(signal.SIGSTOP)
    exchange_id, session_id = client.shown.exchange_id or "", client.shown.session_id or ""
    async with rest(other, "dev:ann") as http:
        assert await ended(http, exchange_id) == "interrupted"
        before = await stored_session(http, session_id)
        first.process.send_signal(signal.SIGCONT)
        final = await asking
        await asyncio.sleep(LEASE_S)
        [exchange] = await stored_session(http, session_id)
    assert [exchange] == before
    assert (final["status"], final["messages"]) == (exchange.status, exchange.messages)
    check_calls(exchange.messages)
    results = [part for message in exchange.messages for part in message["parts"] if part["type"] == "tool_result"]
    assert [result["ok"] for result in results] == [False]
    figure("an owner frozen in a tool past its lease: 1 result stored, its client saw the stored end")
