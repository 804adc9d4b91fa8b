"""`make bench-capacity`: what one core carries, as the tables of CAPACITY.md, which docs/capacity.md reckons with.

The server has one core to itself; load, database and Redis share the others. Every figure is the server's own: its
processor time, its memory, and what it asks of its neighbours, by its metrics. Bounded, on loopback, some ten minutes.
"""

import asyncio
import os
import platform
import re
import resource
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import external_services
import load_client
import servers
from servers import Server

AGENT = "five-ms"
# A database that shares its core with the load bears the first of these only.
AT_ONCE = (50, 100, 200)
WARM_UP, TURNS_EACH = 40, 6
SOCKETS, IDLE_S = 5000, 60
WARM_AGENTS = 1000
_SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.M)


@contextmanager
def one_core(directory: Path, *options: str) -> Iterator[Server]:
    """The product alone on the first core, and this process on the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("needs two cores: one for the server, one for the load")
    try:
        os.sched_setaffinity(0, cores[:1])
        with servers.product(directory, *options) as server:
            os.sched_setaffinity(0, cores[1:])
            yield server
    finally:
        os.sched_setaffinity(0, cores)


@dataclass(frozen=True)
class Asked:
    """What a server has asked of its neighbours so far, in calls."""

    reads: float
    writes: float
    redis: float

    @classmethod
    def of(cls, server: Server) -> "Asked":
        with urllib.request.urlopen(f"{server.internal}/metrics", timeout=10) as answer:
            samples = _SAMPLE.findall(answer.read().decode())

        def total(name: str, label: str = "") -> float:
            return sum(float(value) for found, labels, value in samples if found == name and label in labels)

        operations = "chat_store_operation_seconds_count"
        return cls(
            total(operations, 'kind="read"'),
            total(operations, 'kind="write"'),
            total("chat_broadcast_command_seconds_count", 'command="publish"'),
        )

    def per_turn(self, before: "Asked", turns: int) -> dict[str, float]:
        return {
            "reads": (self.reads - before.reads) / turns,
            "writes": (self.writes - before.writes) / turns,
            "redis": (self.redis - before.redis) / turns,
        }


def turns(server: Server, at_once_each: Sequence[int] = AT_ONCE) -> dict[int, dict[str, float]]:
    """Figures by how many answers run at once."""
    asyncio.run(load_client.measure(server, AGENT, 10, WARM_UP))
    figures = {}
    for at_once in at_once_each:
        before, count = Asked.of(server), at_once * TURNS_EACH
        figures[at_once] = asyncio.run(load_client.measure(server, AGENT, at_once, count))
        figures[at_once] |= Asked.of(server).per_turn(before, count)
    return figures


async def sockets(server: Server) -> dict[str, float]:
    """Memory and processor time of idle sockets, which the server pings."""
    memory, cpu = server.memory_kib(), server.cpu_s()
    clients = []
    for _ in range(SOCKETS // 50):
        clients += await asyncio.gather(*(load_client.socket_to(server) for _ in range(50)))
    opening, cpu = server.cpu_s() - cpu, server.cpu_s()
    await asyncio.sleep(IDLE_S)
    figures = {
        "kib": (server.memory_kib() - memory) / SOCKETS,
        "open_ms": opening / SOCKETS * 1000,
        "idle_share": (server.cpu_s() - cpu) / IDLE_S,
    }
    for client in clients:
        client.transport.abort()
    return figures


async def sessions(server: Server) -> float:
    """KiB that a session keeps in memory after its turn: its agent, which stays warm."""
    await load_client.measure(server, "no-delay", 10, 100)
    before = server.memory_kib()
    await load_client.measure(server, "no-delay", 10, WARM_AGENTS)
    return (server.memory_kib() - before) / WARM_AGENTS


def rows(where: str, figures: dict[int, dict[str, float]]) -> list[str]:
    return [
        f"| {where} | {at_once} | {of['turns_per_s']:.1f} | {of['cpu_ms']:.1f} | {of['first_token_p50']:.0f} "
        f"| {of['first_token_p95']:.0f} | {of['turn_p95']:.0f} | {of['memory_kib'] / 1024:.0f} | {of['reads']:.1f} "
        f"| {of['writes']:.1f} | {of['redis']:.1f} |"
        for at_once, of in figures.items()
    ]


def report(lines: list[str], idle: dict[str, float], session_kib: float, streams: list[float]) -> str:
    return f"""# Capacity of one core

`make bench-capacity` on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}. The server has one core to \
itself; load, database and Redis share the machine's others, so times are an upper bound. An answer has 200 tokens of \
5 characters, 5 ms apart, so it takes a second by itself. Each turn opens a session, and all is stored. MongoDB is a \
mongo-java-server in memory, or what `MONGODB_URL` names.

| store | answers at once | turns/s | CPU ms/turn | first token p50 ms | p95 | turn p95 ms | memory MiB \
| store reads/turn | writes/turn | Redis publishes/turn |
|---|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}

- {SOCKETS:,} idle sockets: {idle["kib"]:.1f} KiB each, {idle["open_ms"]:.2f} ms of CPU to open one, and \
{idle["idle_share"] * 100:.1f} % of a core for all of their pings.
- A session whose agent is warm: {session_kib:.0f} KiB.
- An answer in Redis: {streams[0]:.1f} KiB, until five minutes after its end, and {streams[1]:.1f} ms of its CPU.
"""


def main() -> None:
    # Both ends of each socket are files, one in each process.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with one_core(directory / "sqlite") as server:
            lines = rows("SQLite", turns(server))
        with (
            external_services.mongodb_in_memory() as url,
            one_core(directory / "on-mongodb", "--store", url) as server,
        ):
            lines += rows("MongoDB", turns(server, AT_ONCE[:1]))
        with (
            external_services.redis(directory) as url,
            one_core(directory / "with-redis", "--broadcast", url) as server,
        ):
            lines += rows("SQLite, with Redis", turns(server))
            streams = [spent / (WARM_UP + TURNS_EACH * sum(AT_ONCE)) for spent in external_services.redis_spent(url)]
        with one_core(directory / "sockets") as server:
            idle = asyncio.run(sockets(server))
        with one_core(directory / "sessions") as server:
            session_kib = asyncio.run(sessions(server))
    text = report(lines, idle, session_kib, streams)
    (servers.HERE / "CAPACITY.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
