"""Instances whose clocks are wrong, whose event loop is blocked, or that stand still: none ends a healthy one's run."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hostile.sizes import sized
from services.ferretdb import FerretDb
from support.chat_client import chat
from support.durable_client import DurableClient
from support.fault_agents import notes, words
from support.figures import figure
from support.rest_client import metric_at, rest
from support.server_process import ServerProcess, serving
from support.skewed_clock import SkewedClock
from support.stored_session import ended, stored_session

USER = "dev:ann"
LEASE_S = 4
HOUR_S = 3600.0
SKEWS_S = (HOUR_S, -HOUR_S, 0.0)
PATIENCE_S = 60
BLOCKED_S = sized(2.5 * LEASE_S, 50.0)
AWAY_S = sized(2 * LEASE_S, 30)
WAITS_S = 5.0


class Started:
    """Starts instances on one database; `environment` is that of all of them."""

    def __init__(self, running: AsyncExitStack, directory: Path, url: str) -> None:
        self._running = running
        self._directory = directory
        self._url = url

    async def __call__(self, **environment: str) -> ServerProcess:
        settings = {"AGENTIC_RELAY__LEASE_S": str(LEASE_S), **environment}
        started = serving("--store", self._url, cwd=self._directory, environment=settings)
        return await self._running.enter_async_context(started)


@pytest.fixture
async def start(directory: Path, mongodb_url: str) -> AsyncIterator[Started]:
    async with AsyncExitStack() as running:
        yield Started(running, directory, mongodb_url)


async def asked(server: ServerProcess, message: str, user: str = "ann", **fields: Any) -> asyncio.Task[dict[str, Any]]:
    """The final to come of an exchange that has begun to answer."""
    client = DurableClient(lambda: server.address, user=user, patience_s=90)
    asking = asyncio.create_task(client.ask(message, **fields))
    while not client.shown.writing:
        assert not asking.done(), asking.result()
        await asyncio.sleep(0.01)
    return asking


async def asks_a_person(server: ServerProcess) -> str:
    """An exchange that waits for a person now; its id."""
    async with chat(server.address, token=USER) as client:
        await client.send({"message": "send b | words 4 0", "agent_id": "approved"})
        return str((await client.until("awaiting_human"))["exchange_id"])


async def expired_after(server: ServerProcess, exchange_id: str) -> float:
    """How many seconds after its ask an exchange ended, because nobody decided in time."""
    async with rest(server, USER) as http:
        assert await ended(http, exchange_id) == "ok"
        record = (await http.get(f"/exchanges/{exchange_id}")).json()
    [decision] = record["decisions"]
    assert decision["action"] == "expire"
    ended_at, started_at = [datetime.fromisoformat(record[name]) for name in ("ended_at", "started_at")]
    return (ended_at - started_at).total_seconds()


async def times_of(http: httpx.AsyncClient, session_id: str) -> list[str]:
    """All times in a session's rows, in the order in which they came to be."""
    session = (await http.get(f"/sessions/{session_id}")).json()
    times = [session["created_at"]]
    for exchange in await stored_session(http, session_id):
        stamps = [message["timestamp"] for message in exchange.messages]
        times += [exchange.record["started_at"], *stamps, exchange.record["ended_at"]]
    return [*times, session["updated_at"]]


async def skews_of(servers: list[ServerProcess]) -> list[float]:
    """How far ahead each says its clock is, to a hundred seconds."""
    return [round(await metric_at(server.internal, "chat_clock_skew_seconds"), -2) for server in servers]


@pytest.mark.mongodb
async def test_clocks_an_hour_apart_end_nothing_and_order_everything(start: Started, tmp_path: Path) -> None:
    clocks = [SkewedClock(tmp_path / f"clock-{number}", ahead_s) for number, ahead_s in enumerate(SKEWS_S)]
    limits = {"AGENTIC_LIMITS__HUMAN_TIMEOUT_S": str(WAITS_S)}
    servers = await asyncio.gather(*(start(**clock.environment, **limits) for clock in clocks))
    waiting = [await asks_a_person(server) for server in servers]
    # Each runs for several leases, under the eyes of the others.
    running = [
        await asked(server, f"words {150 * LEASE_S} 50", user=f"user-{place}") for place, server in enumerate(servers)
    ]
    sessions = [(await (await asked(server, "words 5 0 | pause 0.2 | words 5 50")))["session_id"] for server in servers]
    async with rest(servers[0], USER) as http:
        listed = [session["id"] for session in (await http.get("/sessions")).json()["sessions"]]
        assert [session_id for session_id in listed if session_id in sessions] == sessions[::-1], (
            "the last one that was used comes first"
        )
        for server in [*servers, *servers[::-1]]:
            await (await asked(server, "words 5 0 | pause 0.1 | words 5 50", session_id=sessions[0]))
        assert (await http.post(f"/sessions/{sessions[0]}/complete", json={})).status_code == 200
        times = await times_of(http, sessions[0])
        assert times == sorted(times)
        assert abs(datetime.fromisoformat(times[-1]).timestamp() - time.time()) < 60, "it is the database's time"
    finals = [await task for task in running]
    assert [final["status"] for final in finals] == ["ok"] * len(servers)
    waited_s = [await expired_after(servers[place - 1], exchange_id) for place, exchange_id in enumerate(waiting)]
    assert min(waited_s) >= WAITS_S
    async with asyncio.timeout(30):
        while await skews_of(servers) != list(SKEWS_S):
            await asyncio.sleep(0.5)
    warned = ['"clock skew"' in server.stderr for server in servers]
    assert warned == [True, True, False]
    figure(
        f"clocks {SKEWS_S} s ahead, lease {LEASE_S} s: {len(times)} times in order, 0 exchanges ended; "
        f"what waited for a person expired after at most {max(waited_s):.1f} s instead of {WAITS_S}"
    )


@pytest.mark.mongodb
async def test_a_blocked_event_loop_loses_no_exchange(start: Started) -> None:
    """An agent blocks the loop of its instance for longer than a lease; what else runs there goes on."""
    blocked, other = await asyncio.gather(start(), start())
    count = int(20 * (BLOCKED_S + LEASE_S))
    innocent = [await asked(blocked, f"words {count} 20", user=f"user-{number}") for number in range(5)]
    guilty = await asked(blocked, f"words 5 0 | freeze {BLOCKED_S} | words 5 0")
    began = time.monotonic()
    finals = [await task for task in innocent]
    assert time.monotonic() - began > BLOCKED_S > 2 * LEASE_S
    assert [final["status"] for final in finals] == ["ok"] * 5
    # What it had to store itself may have been too late.
    assert (await guilty)["status"] in ("ok", "error")
    assert "exchange interrupted" not in other.stderr
    figure(f"event loop blocked for {BLOCKED_S} s, lease {LEASE_S} s: {len(finals)} of {len(finals)} ended ok")


@pytest.mark.mongodb
async def test_an_owner_that_stood_still_in_a_tool_has_lost_its_exchange(start: Started, directory: Path) -> None:
    """It wakes up, is fenced out, and gives up the run, whose end is the same everywhere."""
    frozen, other = await asyncio.gather(start(), start())
    client = DurableClient(lambda: frozen.address, patience_s=90)
    # In a tool that returns only long after it was woken up, and stores nothing until then.
    asking = asyncio.create_task(client.ask(f"words 5 0 | pause {10 * LEASE_S} | note late | words 5 0"))
    while client.shown.channels.count("tool_call") < 1:
        await asyncio.sleep(0.01)
    frozen.process.send_signal(signal.SIGSTOP)
    async with rest(other, USER) as http:
        exchange_id, session_id = client.shown.exchange_id or "", client.shown.session_id or ""
        assert await ended(http, exchange_id) == "interrupted"
        [before] = await stored_session(http, session_id)
        frozen.process.send_signal(signal.SIGCONT)
        woken_at = time.monotonic()
        final = await asking
        told_s = time.monotonic() - woken_at
        [after] = await stored_session(http, session_id)
    assert notes(directory) == [], "the tool has not returned"
    assert final["status"] == "interrupted" and final["messages"] == before.messages == after.messages
    again = await DurableClient(lambda: frozen.address).follow(exchange_id)
    assert again["messages"] == final["messages"]
    async with asyncio.timeout(PATIENCE_S):
        while await metric_at(frozen.internal, "chat_running_exchanges"):
            await asyncio.sleep(0.1)
    assert notes(directory) == []
    figure(f"told {told_s:.1f} s after it was woken up, lease {LEASE_S} s; one end for both instances")


@pytest.mark.mongodb
async def test_an_outage_longer_than_the_lease_ends_nobodys_exchange(directory: Path, own_ferretdb: FerretDb) -> None:
    """Neither one's own nor that of another instance, which nobody could see alive meanwhile."""
    async with AsyncExitStack() as running:
        start = Started(running, directory, f"mongodb://127.0.0.1:{own_ferretdb.port}/chat")
        servers = await asyncio.gather(start(), start())
        count = int(50 * (AWAY_S + 3 * LEASE_S))
        answers = [await asked(server, f"words {count} 50", user=f"user-{n}") for n, server in enumerate(servers)]
        own_ferretdb.stop()
        await asyncio.sleep(AWAY_S)
        own_ferretdb.start()
        finals = [await answer for answer in answers]
        for place, final in enumerate(finals):
            assert final["status"] == "ok"
            async with rest(servers[1 - place], f"dev:user-{place}") as http:
                [exchange] = await stored_session(http, final["session_id"])
            assert (exchange.status, exchange.answer) == ("ok", words(count))
    figure(f"database away for {AWAY_S} s, lease {LEASE_S} s: {len(finals)} of {len(finals)} ended ok")


async def test_times_never_run_back_when_the_clock_is_set_back(directory: Path, tmp_path: Path) -> None:
    """On SQLite, whose clock is the machine's own."""
    clock = SkewedClock(tmp_path / "clock", 0)
    async with serving(cwd=directory, environment=clock.environment) as server, rest(server, USER) as http:
        session_id = (await (await asked(server, "words 5 50")))["session_id"]
        for ahead_s in (-60, -HOUR_S, HOUR_S, 0):
            answer = await asked(server, "words 5 0 | pause 0.2 | words 20 50", session_id=session_id)
            clock.ahead_s = ahead_s
            assert (await answer)["status"] == "ok"
        assert (await http.post(f"/sessions/{session_id}/complete", json={})).status_code == 200
        times = await times_of(http, session_id)
        session = (await http.get(f"/sessions/{session_id}")).json()
    assert times == sorted(times) and session["ended_at"] == times[-1]
    figure(f"a clock set back and forth by an hour: {len(times)} times in order")
