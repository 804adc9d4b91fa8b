"""Several instances on one database, with Redis or as workers: any serves any session, whichever come and go."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from faults.fleet import Fleet, fleet
from faults.sizes import SIZES
from services.redis import Redis
from support.chat_client import chat, check_exchange
from support.durable_client import DurableClient
from support.fault_agents import notes, words
from support.figures import figure
from support.processes import children
from support.rest_client import PREFIX, plain_http, rest
from support.server_process import serving
from support.stored_session import StoredExchange, stored_session

pytestmark = pytest.mark.redis

INSTANCES, CLIENTS = 3, 10
LEASE_S = "5"
PATIENCE_S = 60
AWAY_S = 3
SCRIPTS = ["words 100 50", "words 20 50 | note {name} | words 60 50", "words 10 0 | pause 1.5 | words 40 50"]
RESTARTS = [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]


@pytest.fixture
async def instances(directory: Path, mongodb_url: str, redis_url: str) -> AsyncIterator[Fleet]:
    environment = {"AGENTIC_BROADCAST__URL": redis_url, "AGENTIC_RELAY__LEASE_S": LEASE_S}
    async with fleet(directory, INSTANCES, mongodb_url, **environment) as instances:
        yield instances


class Chatting:
    """A client that chats in one session, and loses its socket now and then; each socket may lead to another instance.

    `statuses` are the exchanges' ends as it saw them, by their ids.
    """

    def __init__(self, number: int, address: str) -> None:
        self.client = DurableClient(lambda: address, user=f"user-{number}", patience_s=90)
        self.statuses: dict[str, str] = {}
        self._choice = random.Random(number)
        self._number = number
        self._address = address
        self._session_id: str | None = None

    async def chat(self, restarted: asyncio.Event) -> None:
        """Until enough was asked, and all instances have been restarted."""
        while len(self.statuses) * CLIENTS < SIZES.exchanges or not restarted.is_set():
            await self._ask(f"{self._number}-{len(self.statuses)}")

    async def _ask(self, name: str) -> None:
        session = {"session_id": self._session_id} if self._session_id else {}
        script = self._choice.choice(SCRIPTS).format(name=name)
        asking = asyncio.create_task(self.client.ask(script, client_exchange_id=name, **session))
        while not asking.done():
            await asyncio.wait({asking}, timeout=self._choice.uniform(0, 3))
            self.client.drop()
        final = await asking
        self._session_id = final["session_id"]
        assert final["exchange_id"] not in self.statuses
        self.statuses[final["exchange_id"]] = final["status"]
        again = DurableClient(lambda: self._address, user=self.client.user)
        repeated = await again.ask(script, client_exchange_id=name, **session)
        assert repeated["exchange_id"] == final["exchange_id"], "asked again, wherever, it starts nothing"
        assert repeated["status"] == final["status"]
        shown = [repeated["messages"], final["messages"], list(self.client.shown.messages.values())]
        assert shown[0] == shown[1] == shown[2], (again.shown.resets, [len(messages) for messages in shown])

    async def stored(self) -> list[StoredExchange]:
        """Its exchanges as any instance has them; they have ended as the client saw it."""
        headers = {"authorization": f"Bearer dev:{self.client.user}"}
        async with plain_http(base_url=self._address + PREFIX, headers=headers) as http:
            exchanges = await stored_session(http, self._session_id or "")
        assert {exchange.record["id"]: exchange.status for exchange in exchanges} == self.statuses
        return exchanges


@pytest.mark.mongodb
async def test_each_instance_is_restarted_while_people_chat(instances: Fleet, directory: Path) -> None:
    chatting = [Chatting(number, instances.address) for number in range(CLIENTS)]
    restarted = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for one in chatting:
            tasks.create_task(one.chat(restarted))
        for place, number in enumerate(RESTARTS):
            await asyncio.sleep(1.5)
            expected = -number if number == signal.SIGKILL else 0
            assert await instances.restart(place, number) == expected
        restarted.set()
    stored = [exchange for one in chatting for exchange in await one.stored()]
    ends = Counter(exchange.status for exchange in stored)
    assert set(ends) <= {"ok", "interrupted"} and ends["ok"] > ends["interrupted"]
    values = [value for value, _ in notes(directory)]
    assert len(values) == len(set(values)), "no tool has run twice"
    reconnects = sum(one.client.opened for one in chatting) - len(stored)
    figure(
        f"{INSTANCES} instances, each restarted once, {len(stored)} exchanges, {reconnects} reconnects: "
        f"each ended once ({ends['ok']} ok, {ends['interrupted']} interrupted by kill -9), every transcript byte-equal"
    )


async def test_each_worker_is_killed_while_people_chat(directory: Path) -> None:
    """The workers of one server share a SQLite file, and hear each other without Redis."""
    brief = {"AGENTIC_RELAY__LEASE_S": LEASE_S}
    async with serving("--workers", INSTANCES, cwd=directory, environment=brief) as server:
        await server.started(times=INSTANCES, timeout_s=PATIENCE_S)
        chatting = [Chatting(number, server.address) for number in range(CLIENTS)]
        restarted = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for one in chatting:
                tasks.create_task(one.chat(restarted))
            for place, worker in enumerate(children(server.pid)[:INSTANCES]):
                await asyncio.sleep(1.5)
                os.kill(worker, signal.SIGKILL)
                await server.started(times=INSTANCES + place + 1, timeout_s=PATIENCE_S)
            restarted.set()
        stored = [exchange for one in chatting for exchange in await one.stored()]
    ends = Counter(exchange.status for exchange in stored)
    assert set(ends) <= {"ok", "interrupted"}
    values = [value for value, _ in notes(directory)]
    assert len(values) == len(set(values)), "no tool has run twice"
    figure(
        f"{INSTANCES} workers, each killed once, {len(stored)} exchanges: "
        f"each ended once ({ends['ok']} `ok`, {ends['interrupted']} `interrupted`), every transcript byte-equal"
    )


@pytest.mark.mongodb
async def test_any_instance_stops_and_shows_what_another_runs(instances: Fleet) -> None:
    running, other, third = instances.instances
    took = []
    for by in ("socket", "rest"):
        async with chat(running.address) as client, chat(other.address) as stopping, rest(third) as http:
            await client.send({"message": "words 5000 50"})
            session_id = (await client.until("delta"))["session_id"]
            await stopping.send({"type": "follow", "session_id": session_id})
            await stopping.until("delta")
            began = time.monotonic()
            if by == "socket":
                await stopping.send({"type": "stop", "session_id": session_id})
            else:
                assert (await http.post(f"/sessions/{session_id}/cancel", json={})).json() == {"cancelled": True}
            finals = [await client.until("final"), await stopping.until("final")]
            took.append(time.monotonic() - began)
            assert finals[0]["messages"] == finals[1]["messages"]
            assert {final["status"] for final in finals} == {"stopped"}
            check_exchange([event for event in client.events if "seq" in event])
            check_exchange([event for event in stopping.events if "seq" in event])
            answer = (await stopping.ask("words 5 0", session_id=session_id))[-1]
            assert answer["messages"][-1]["parts"] == [{"type": "text", "text": words(5)}]
    figure(f"stopped from another instance within {max(took):.2f} s, over WebSocket and REST")


@pytest.mark.mongodb
async def test_redis_goes_and_comes_back(directory: Path, mongodb_url: str, own_redis: Redis) -> None:
    """Who follows from the instance that runs it sees nothing of that; who follows from another one catches up."""
    async with fleet(directory, 2, mongodb_url, AGENTIC_BROADCAST__URL=own_redis.url) as instances:
        here, there = instances.instances
        near, late = DurableClient(lambda: here.address), DurableClient(lambda: here.address)
        far = DurableClient(lambda: there.address)
        asking = asyncio.create_task(near.ask("words 600 50"))
        while not near.shown.writing:
            await asyncio.sleep(0.01)
        following = asyncio.create_task(far.follow(near.shown.exchange_id or ""))
        while not far.shown.writing:
            await asyncio.sleep(0.01)
        own_redis.stop()
        final_of_late = await late.ask("words 20 20")
        await asyncio.sleep(AWAY_S)
        own_redis.start()
        back_at, written = time.monotonic(), len(near.shown.writing)
        async with asyncio.timeout(PATIENCE_S):
            while len(far.shown.writing) < written:
                await asyncio.sleep(0.01)
        back_s = time.monotonic() - back_at
        assert not asking.done(), "it is seen while it is written"
        finals = [await asking, await following]
        async with rest(there, "dev:ann") as http:
            [exchange] = await stored_session(http, finals[0]["session_id"])
    assert (near.opened, near.shown.resets) == (1, 0)
    assert finals[0]["messages"] == finals[1]["messages"] == exchange.messages
    assert exchange.answer == words(600) and final_of_late["status"] == "ok"
    figure(f"Redis away for some seconds: exchanges went on, seen from another instance again after {back_s:.1f} s")
