"""One user who asks for much: reports, searches, pages, floods of small calls. The others notice nothing."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from hostile.sizes import sized
from support import kpi_rows, large_sessions
from support.bystander import bystander
from support.chat_client import PATH
from support.figures import figure
from support.rest_client import plain_http
from support.server_process import ServerProcess, serving
from websockets.asyncio.client import connect

from agentic_backend.config.topics.limits import WITH_USERS

MIB = 1024 * 1024
# What Keycloak mode switches on by itself.
LIMITED = {f"AGENTIC_LIMITS__{name.upper()}": str(limit) for name, limit in WITH_USERS.items()}
DAY = {"start": "2026-01-01T00:00:00Z", "end": "2026-12-31T00:00:00Z"}
EVERY_PERCENTILE = [
    f"{field}:{operation}"
    for field in ("latency_ms", "first_token_ms", "input_tokens", "output_tokens", "total_tokens", "tool_calls")
    for operation in ("p50", "p95", "p99")
]
SLOWER_AT_MOST_S = 1.0


@pytest.fixture
def database(directory: Path) -> Path:
    path = directory / "data" / "chat.sqlite3"
    path.parent.mkdir(parents=True)
    return path


@asynccontextmanager
async def of_user(server: ServerProcess, user: str) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_http(
        base_url=f"{server.address}/agentic/v1",
        headers={"Authorization": f"Bearer dev:{user}"},
        timeout=60,
        limits=httpx.Limits(max_connections=100),
    ) as client:
        yield client


async def many(count: int, call: Callable[[int], Awaitable[httpx.Response]]) -> Counter[int]:
    """The statuses of so many calls at once."""
    return Counter(response.status_code for response in await asyncio.gather(*map(call, range(count))))


class Peak:
    """How far the memory of a server goes up within the block, in MiB."""

    def __init__(self, server: ServerProcess) -> None:
        self._path = Path(f"/proc/{server.pid}")

    def __enter__(self) -> "Peak":
        (self._path / "clear_refs").write_text("5")
        self._before = self._high()
        return self

    def __exit__(self, *_: object) -> None:
        self.mib = self._high() - self._before

    def _high(self) -> float:
        status = (self._path / "status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


@pytest.mark.further
async def test_reports_over_many_records_delay_nobody(directory: Path, database: Path) -> None:
    records = 100_000
    async with serving(cwd=directory):
        pass
    await asyncio.to_thread(kpi_rows.fill, database, "mallory", records)
    # On a machine that does other things as well, a report over so much may take longer than it may elsewhere.
    environment = {**LIMITED, "AGENTIC_STORE__TIMEOUT_S": "30"}
    async with serving(cwd=directory, environment=environment) as server, of_user(server, "mallory") as mallory:
        async with bystander(server.address, server.internal, token="dev:bob") as felt:
            query = httpx.QueryParams({**DAY, "precision": "min"})
            for aggregation in EVERY_PERCENTILE:
                query = query.add("agg", aggregation)
            statuses = await many(20, lambda _: mallory.get("/metrics/chatbot/numerical", params=query))
            flood = str(query) + "&agg=latency_ms:p95" * 3_000
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
                head = f"GET /agentic/v1/metrics/chatbot/numerical?{flood} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                writer.write(head.encode())
                refused = await reader.readline()
                writer.close()
    assert statuses[200] >= 1 and set(statuses) <= {200, 429}
    assert b" 400 " in refused
    slowest = max(felt.slowest_s.values())
    figure(f"20 reports at once over {records:,} records: {dict(statuses)}; others ≤ {slowest * 1000:.0f} ms")
    assert felt.waited_at_most(SLOWER_AT_MOST_S)


async def test_searches_of_one_user_leave_the_lists_of_others_alone(directory: Path, database: Path) -> None:
    mib = sized(20, 100)
    await large_sessions.fill(database, "mallory", sessions=10, mib_each=mib / 10)
    await large_sessions.fill(database, "bob", sessions=3, mib_each=0.1)
    took_s: list[float] = []
    async with (
        serving(cwd=directory, environment=LIMITED) as server,
        of_user(server, "mallory") as mallory,
        of_user(server, "bob") as bob,
        bystander(server.address, server.internal, token="dev:carol") as felt,
    ):
        attack = asyncio.create_task(
            many(40, lambda number: mallory.get("/sessions", params={"q": f"nowhere to be found {number}"}))
        )
        loop = asyncio.get_running_loop()
        while not attack.done():
            began = loop.time()
            listed, found = await asyncio.gather(
                bob.get("/sessions"), bob.get("/sessions", params={"q": "quick brown"})
            )
            took_s.append(loop.time() - began)
            assert (listed.status_code, len(listed.json()["sessions"])) == (200, 3)
            assert (found.status_code, len(found.json()["sessions"])) == (200, 3)
        statuses = await attack
    assert statuses[200] >= 1 and set(statuses) <= {200, 429}
    slowest = max(felt.slowest_s.values())
    figure(
        f"40 searches at once over {mib} MB: {dict(statuses)}; another's list and search ≤ "
        f"{max(took_s) * 1000:.0f} ms, others ≤ {slowest * 1000:.0f} ms"
    )
    assert len(took_s) > 1, "they are answered while the searches run"
    assert felt.waited_at_most(SLOWER_AT_MOST_S)


async def test_pages_and_histories_of_a_large_session_take_little_memory(directory: Path, database: Path) -> None:
    mib, at_once = sized(8, 26), 30
    [session_id] = await large_sessions.fill(database, "mallory", sessions=1, mib_each=mib)

    async with (
        serving(cwd=directory, environment=LIMITED) as server,
        of_user(server, "mallory") as mallory,
        bystander(server.address, server.internal, token="dev:bob") as felt,
    ):

        async def read(path: str) -> int:
            """Reads and forgets; how many bytes came. One that is refused comes again."""
            while True:
                async with mallory.stream("GET", path) as response:
                    if response.status_code == 200:
                        return sum([len(piece) async for piece in response.aiter_raw()])
                    assert response.status_code == 429
                await asyncio.sleep(0.1)

        await read(f"/sessions/{session_id}/messages?limit=1000")
        peaks = []
        for path in (f"/sessions/{session_id}/messages?limit=1000", f"/chatbot/session/{session_id}/history"):
            with Peak(server) as peak:
                sizes = await asyncio.gather(*(read(path) for _ in range(at_once)))
            assert len(set(sizes)) == 1
            peaks.append(peak.mib)
    assert sizes[0] > mib * MIB, "the history has it all"
    slowest = max(felt.slowest_s.values())
    figure(
        f"{at_once} readers at once of {mib} MiB: pages +{peaks[0]:.0f} MiB, whole histories +{peaks[1]:.0f} "
        f"MiB; others ≤ {slowest * 1000:.0f} ms"
    )
    assert max(peaks) < 50 + at_once * mib / 8
    assert felt.waited_at_most(SLOWER_AT_MOST_S)


async def test_large_finals_that_nobody_reads_take_little_memory(directory: Path, database: Path) -> None:
    """A socket asks for what has ended again and again, and reads nothing."""
    asks = sized(120, 250)
    [session_id] = await large_sessions.fill(database, "mallory", sessions=1, mib_each=3)
    async with (
        serving(cwd=directory, environment={**LIMITED, "AGENTIC_LIMITS__SEND_TIMEOUT_S": "60"}) as server,
        of_user(server, "mallory") as mallory,
    ):
        page = await mallory.get(f"/sessions/{session_id}/messages", params={"limit": 1})
        follow = {"type": "follow", "exchange_id": page.json()["messages"][0]["exchange_id"]}
        url = server.address.replace("http", "ws") + PATH
        token = {"Authorization": "Bearer dev:mallory"}
        async with connect(url, additional_headers=token, max_queue=1, max_size=None, close_timeout=0.1) as socket:
            with Peak(server) as peak:
                for _ in range(asks):
                    await socket.send(json.dumps(follow))
                await asyncio.sleep(sized(3, 10))
            socket.transport.abort()
    figure(f"{asks} finals of a MiB asked for by a socket that reads nothing: +{peak.mib:.0f} MiB")
    assert peak.mib < 20 + asks / 5, "a small share of what was asked for"


async def test_a_flood_of_small_calls_delays_nobody(directory: Path) -> None:
    calls = sized(250, 4_000)
    async with (
        serving(cwd=directory, environment=LIMITED) as server,
        of_user(server, "mallory") as mallory,
    ):
        session_id = (await mallory.post("/sessions", json={})).json()["id"]
        async with bystander(server.address, server.internal, token="dev:bob") as felt:
            opened = await many(calls, lambda _: mallory.post("/sessions", json={}))
            session = f"/sessions/{session_id}"
            renamed = await many(calls, lambda number: mallory.patch(session, json={"title": f"Title {number}"}))
    empty, at_once = WITH_USERS["empty_sessions_per_user"], WITH_USERS["requests_per_user"]
    assert empty <= 1 + opened[201] <= empty + at_once
    assert set(opened) == {201, 429} and renamed[200] >= 1 and set(renamed) <= {200, 429}
    slowest = max(felt.slowest_s.values())
    figure(f"{calls} new sessions: {dict(opened)}, {calls} renames: {dict(renamed)}; others ≤ {slowest * 1000:.0f} ms")
    assert felt.waited_at_most(SLOWER_AT_MOST_S)
