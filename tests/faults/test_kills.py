"""A server is killed at any moment: no exchange is stuck, each ends once, and what was shown is kept."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from faults.sizes import SIZES
from support.chat_client import PATIENCE_S, Event, final_text
from support.durable_client import DurableClient
from support.fault_agents import notes, words
from support.figures import figure
from support.rest_client import metric_at, rest
from support.server_process import ServerProcess, serving
from support.shown_exchange import ShownExchange
from support.stored_session import ended, stored_session

from agentic_backend.client import FollowingSessions, SessionChanged, connect
from agentic_backend.protocol.messages import SessionState

USER = "dev:ann"
MOST_LOST_S = SIZES.lost_s
LEASE_S = 5
CLIENTS = 6
UP_S = 0.2, 2.0

Moment = tuple[str, Callable[[ShownExchange], bool]]

MOMENTS: dict[str, Moment] = {
    "first token": ("words 1 0 | hold 60", lambda shown: shown.writing == "1"),
    "mid-stream": ("words 5000 50", lambda shown: len(shown.writing.split()) > 120),
    "mid-tool": ("note a | words 3 0 | pause 60", lambda shown: shown.channels.count("tool_call") == 2),
    "in a text that begins like one before it": (
        "words 200 0 | pause 0 | words 60 50 | hold 60",
        lambda shown: shown.channels.count("tool_result") == 1 and shown.writing == words(60),
    ),
    "before the final": ("words 80 0 | hold 60", lambda shown: shown.writing == words(80)),
}
SCRIPTS = [
    "words 60 50",
    "words 60 50 | pause 0 | words 60 50",
    "note a | words 20 50",
    "words 5 0 | pause 0.5 | words 20 50",
    "words 5 0",
    "pause 3",
]


def without_session(final: Event) -> Event:
    """The final without its session, which may have been named since."""
    return {name: value for name, value in final.items() if name != "session"}


class Users:
    """One client for each moment, all at the same server; `killed` kills it when each has reached its moment."""

    def __init__(self, address: Callable[[], str]) -> None:
        self.clients = {name: DurableClient(address, patience_s=120) for name in MOMENTS}
        self._asking = {
            name: asyncio.create_task(client.ask(MOMENTS[name][0])) for name, client in self.clients.items()
        }
        self._gone_at = 0.0

    async def killed(self, server: ServerProcess) -> None:
        async with asyncio.timeout(60):
            for name, client in self.clients.items():
                while not MOMENTS[name][1](client.shown):
                    assert not self._asking[name].done(), self._asking[name].result()
                    await asyncio.sleep(0.01)
            # What has been complete for so long may not be lost.
            await asyncio.sleep(1.1 * MOST_LOST_S)
        self._gone_at = time.monotonic()
        assert await server.stop(signal.SIGKILL) == -signal.SIGKILL

    async def check(self, server: ServerProcess, directory: Path) -> None:
        """Each client has seen its exchange end as interrupted, and goes on in its session at `server`."""
        lost = {}
        for name, client in self.clients.items():
            final = await self._asking[name]
            lost[name] = client.shown.lost_s([self._gone_at])
            assert final["status"] == "interrupted" and final["error"]["code"] == "interrupted"
            again = DurableClient(lambda: server.address)
            told = without_session(final)
            assert without_session(await again.follow(final["exchange_id"])) == told, "later one is told the same"
            assert without_session(await again.ask(**client.asked)) == told, "asked again, it starts nothing"
            await self._goes_on(client, final["session_id"], server)
        silent = ("first token", "before the final", "in a text that begins like one before it")
        assert [lost[name] for name in silent] == [0, 0, 0]
        assert max(lost.values()) <= MOST_LOST_S
        assert [value for value, _ in notes(directory)] == ["a"]
        figure(f"killed at {', '.join(MOMENTS)}: each interrupted once, {max(lost.values()):.2f} s of text lost")

    async def _goes_on(self, client: DurableClient, session_id: str, server: ServerProcess) -> None:
        final = await client.ask("words 4 0", session_id=session_id)
        assert final_text([{"messages": final["messages"][1:]}]) == words(4)
        async with rest(server, f"dev:{client.user}") as http:
            assert [exchange.status for exchange in await stored_session(http, session_id)] == ["interrupted", "ok"]


async def test_a_server_that_is_killed_and_started_again_has_lost_nothing(directory: Path) -> None:
    servers: list[ServerProcess] = []
    async with serving(cwd=directory) as server:
        servers.append(server)
        users = Users(lambda: servers[-1].address)
        await users.killed(server)
    async with serving(cwd=directory) as server:
        servers.append(server)
        await users.check(server, directory)


async def test_another_instance_ends_what_a_killed_one_was_running(directory: Path, mongodb_url: str) -> None:
    environment = {"AGENTIC_RELAY__LEASE_S": str(LEASE_S)}
    async with AsyncExitStack() as running:
        first, other = [
            await running.enter_async_context(serving("--store", mongodb_url, cwd=directory, environment=environment))
            for _ in range(2)
        ]
        servers = [first]
        users = Users(lambda: servers[-1].address)
        await users.killed(first)
        servers.append(other)
        async with rest(other, USER) as http:
            began = time.monotonic()
            for client in users.clients.values():
                assert client.shown.exchange_id is not None
                assert await ended(http, client.shown.exchange_id) == "interrupted"
            figure(f"ended by another instance {time.monotonic() - began:.1f} s after the kill, a lease of {LEASE_S} s")
        await users.check(other, directory)


@asynccontextmanager
async def frozen_owner(
    directory: Path, store: str, lease_s: float, message: str
) -> AsyncIterator[tuple[ServerProcess, ServerProcess, DurableClient, asyncio.Task[Event]]]:
    """Two instances, of which the first stands still in the middle of an answer: both, the client, and its ask."""
    environment = {"AGENTIC_RELAY__LEASE_S": str(lease_s)}
    async with AsyncExitStack() as running:
        first, other = [
            await running.enter_async_context(serving("--store", store, cwd=directory, environment=environment))
            for _ in range(2)
        ]
        client = DurableClient(lambda: first.address)
        asking = asyncio.create_task(client.ask(message))
        while not client.shown.writing:
            await asyncio.sleep(0.01)
        first.process.send_signal(signal.SIGSTOP)
        yield first, other, client, asking


async def test_an_owner_that_wakes_up_writes_nothing(directory: Path, mongodb_url: str) -> None:
    """An instance stands still for longer than its lease, and another one has ended its exchanges by then."""
    message = "words 300 50 | note a | words 20 50"
    async with (
        frozen_owner(directory, mongodb_url, LEASE_S, message) as (first, other, client, asking),
        rest(other, USER) as http,
    ):
        exchange_id, session_id = client.shown.exchange_id or "", client.shown.session_id or ""
        assert await ended(http, exchange_id) == "interrupted"
        before = await stored_session(http, session_id)
        next_final = await DurableClient(lambda: other.address).ask("words 4 0", session_id=session_id)
        assert next_final["status"] == "ok"
        first.process.send_signal(signal.SIGCONT)
        final = await asking
        after = await stored_session(http, session_id)
        await asyncio.sleep(LEASE_S)
        assert await stored_session(http, session_id) == after
    assert after[:1] == before and [exchange.status for exchange in after] == ["interrupted", "ok"]
    assert final["status"] == "interrupted"
    figure(f"an owner that stood still for more than its lease of {LEASE_S} s: wrote nothing")


async def test_a_session_is_deleted_though_its_owner_stands_still(directory: Path, mongodb_url: str) -> None:
    """Its lease is not over by then, and it gives up the exchange when it wakes up."""
    lease_s = 15
    async with (
        frozen_owner(directory, mongodb_url, lease_s, "words 600 50 | note a") as (first, other, client, asking),
        rest(other, USER) as http,
    ):
        exchange_id, session_id = client.shown.exchange_id or "", client.shown.session_id or ""
        began = time.monotonic()
        assert (await http.delete(f"/sessions/{session_id}")).status_code == 204
        deleted_s = time.monotonic() - began
        assert deleted_s < lease_s / 2
        figure(f"deleted in {deleted_s:.1f} s, though its owner stood still")
        first.process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S):
            while await metric_at(first.internal, "chat_running_exchanges"):
                await asyncio.sleep(0.1)
        asking.cancel()
        for path in (f"/sessions/{session_id}", f"/exchanges/{exchange_id}"):
            assert (await http.get(path)).status_code == 404
    assert notes(directory) == []


async def test_a_session_is_completed_though_its_owner_stands_still(directory: Path, mongodb_url: str) -> None:
    """Also a client that only watches the list of sessions is told."""
    lease_s = 15
    async with (
        frozen_owner(directory, mongodb_url, lease_s, "words 600 50") as (first, other, client, asking),
        rest(other, USER) as http,
        connect(other.address, token=USER) as watching,
    ):
        sessions, session_id = watching.follow_sessions(), client.shown.session_id or ""
        assert isinstance(await anext(sessions), FollowingSessions)
        began = time.monotonic()
        answer = await http.post(f"/sessions/{session_id}/complete", json={})
        assert (answer.status_code, answer.json()["state"]) == (200, "completed")
        completed_s = time.monotonic() - began
        assert completed_s < lease_s / 2
        async for event in sessions:
            if isinstance(event, SessionChanged) and event.session.state is SessionState.COMPLETED:
                break
        figure(f"completed in {completed_s:.1f} s, though its owner stood still")
        first.process.send_signal(signal.SIGCONT)
        asking.cancel()


class Chatting:
    """A client that asks one thing after the other in one session; `killed` are the moments of all kills so far."""

    def __init__(self, number: int, address: Callable[[], str], killed: list[float]) -> None:
        self.client = DurableClient(address, user=f"user-{number}")
        self.statuses: list[str] = []
        self.lost_s = 0.0
        self.session_id: str | None = None
        self.enough = False
        self._choice = random.Random(number)
        self._killed = killed

    async def chat(self) -> None:
        while not self.enough:
            session = {"session_id": self.session_id} if self.session_id else {}
            final = await self.client.ask(self._choice.choice(SCRIPTS), **session)
            self.session_id = final["session_id"]
            self.statuses.append(final["status"])
            if final["status"] == "interrupted":
                self.lost_s = max(self.lost_s, self.client.shown.lost_s(self._killed))
            else:
                assert final["status"] == "ok"

    async def check(self, server: ServerProcess) -> None:
        async with rest(server, f"dev:{self.client.user}") as http:
            exchanges = await stored_session(http, self.session_id or "")
        assert [exchange.status for exchange in exchanges] == self.statuses, "each ended once, as its client saw it"


async def at_work(chatting: list[Chatting]) -> None:
    """Until something runs at the server that has just been started: a kill of nothing shows nothing."""
    opened = [one.client.opened for one in chatting]
    while not any(
        one.client.opened > before and one.client.shown.exchange_id is not None and one.client.shown.final is None
        for one, before in zip(chatting, opened, strict=True)
    ):
        await asyncio.sleep(0.01)


async def test_kills_at_random_moments_leave_nothing_stuck(directory: Path) -> None:
    moments, killed, servers = random.Random(4), list[float](), list[ServerProcess]()
    chatting = [Chatting(number, lambda: servers[-1].address, killed) for number in range(CLIENTS)]
    async with asyncio.TaskGroup() as tasks:
        for _ in range(SIZES.kills):
            async with serving(cwd=directory) as server:
                servers.append(server)
                if not killed:
                    chats = [tasks.create_task(one.chat()) for one in chatting]
                await at_work(chatting)
                await asyncio.sleep(moments.uniform(*UP_S))
                killed.append(time.monotonic())
                assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
        async with serving(cwd=directory) as server:
            servers.append(server)
            for one in chatting:
                one.enough = True
            await asyncio.wait(chats)
            for one in chatting:
                await one.check(server)
    ends = Counter(status for one in chatting for status in one.statuses)
    lost_s = max(one.lost_s for one in chatting)
    assert ends["interrupted"] >= SIZES.kills and ends["ok"]
    assert lost_s <= MOST_LOST_S
    keys = [key for _, key in notes(directory)]
    assert len(keys) == len(set(keys)), "no tool has run twice"
    figure(
        f"{len(killed)} kills: {ends['interrupted']} exchanges interrupted, {ends['ok']} ok, 0 stuck, "
        f"0 double finals, {lost_s:.2f} s of text lost"
    )
