"""`make bench-workers`: what two workers carry beside one, on SQLite, and how long 8 processes wait for its lock.

The load runs on the same cores, so its share is taken out: a server's turns are those that it would have made, had it
had as many cores as workers, by the share of them that nobody else used.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import load_client
import lock_waits
import results
import servers
from figures import medians
from servers import Server

AGENT, AT_ONCE, TURNS, WARM_UP = "no-delay", 50, 600, 60
WORKERS = (1, 2)
ROUNDS = 3
LIMIT = 1.7
TITLE = "Workers"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of the first line of /proc/stat: all but idle and iowait, and those that are in user time already.
_BUSY = (0, 1, 2, 5, 6, 7)


@dataclass(frozen=True)
class Spent:
    """Processor time so far in seconds: of each process of a server, and of the whole machine."""

    at: float
    of_processes: Mapping[int, float]
    of_machine: float

    @classmethod
    def now(cls, server: Server) -> "Spent":
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
        family = {server.pid} | {pid for pid, parent in parents.items() if parent == server.pid}
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
        busy = sum(int(fields[place]) for place in _BUSY) / _TICKS_PER_S
        return cls(time.monotonic(), {pid: Server("", pid).cpu_s() for pid in family}, busy)

    def since(self, before: "Spent") -> "Spent":
        of_processes = {pid: spent - before.of_processes.get(pid, 0.0) for pid, spent in self.of_processes.items()}
        return Spent(self.at - before.at, of_processes, self.of_machine - before.of_machine)


def one(server: Server, workers: int) -> dict[str, float]:
    asyncio.run(load_client.measure(server, AGENT, 10, WARM_UP))
    before = Spent.now(server)
    figures = asyncio.run(load_client.measure(server, AGENT, AT_ONCE, TURNS))
    spent = Spent.now(server).since(before)
    own = sum(spent.of_processes.values())
    cores = len(os.sched_getaffinity(0))
    had = min(workers, cores - (spent.of_machine - own) / spent.at)
    busiest = sorted(spent.of_processes.values())[-workers:]
    return {
        "turns_per_s": figures["turns_per_s"],
        "cpu_ms": own / TURNS * 1000,
        "first_token_p50": figures["first_token_p50"],
        "cores": had,
        "with_all_cores": figures["turns_per_s"] * workers / had,
        "least_share": busiest[0] / sum(busiest),
    }


def measure() -> tuple[dict[int, dict[str, float]], dict[str, dict[str, float]]]:
    """The figures by the number of workers, and the waits for the lock by their case."""
    rounds: dict[int, list[dict[str, float]]] = {workers: [] for workers in WORKERS}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for number in range(ROUNDS):
            for workers in WORKERS:
                data = directory / f"{workers}-{number}"
                with servers.product(data, "--workers", str(workers)) as server:
                    rounds[workers].append(one(server, workers))
        waits = lock_waits.measure(directory)
    return {workers: medians(each) for workers, each in rounds.items()}, waits


def report(found: Mapping[int, Mapping[str, float]], waits: Mapping[str, Mapping[str, float]], load: float) -> str:
    lines = "\n".join(
        f"| {workers} | {of['turns_per_s']:.1f} | {of['cores']:.2f} | {of['with_all_cores']:.1f} | {of['cpu_ms']:.1f} "
        f"| {of['first_token_p50']:.0f} | {of['least_share']:.2f} |"
        for workers, of in found.items()
    )
    locks = "\n".join(
        f"| {case} | {of['writes']:.0f} | {of['p50']:.1f} | {of['p95']:.1f} | {of['p99']:.1f} | {of['longest']:.1f} |"
        for case, of in waits.items()
    )
    got = found[2]["with_all_cores"] / found[1]["with_all_cores"]
    return f"""`make bench-workers` on {datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, with a load \
of {load:.1f} when this began: medians of {ROUNDS} rounds, {AT_ONCE} at a time without delay, SQLite, no Redis. The \
load and whatever else ran took a share of the cores; *with all cores* is what the workers would have done without that.

| workers | turns/s | cores they could use | turns/s with all cores | CPU ms/turn | first token p50 ms \
| share of the worker with least |
|---|---|---|---|---|---|---|
{lines}

So many processes write to one SQLite file, by the store's own connection, and wait for the lock and their thread:

| processes, writes | all writes | p50 ms | p95 | p99 | longest |
|---|---|---|---|---|---|
{locks}

| target | wanted | got | reached |
|---|---|---|---|
| turns/s of two workers with all cores, × one | ≥ {LIMIT:g} | {got:.2f} | {"yes" if got >= LIMIT else "no"} |
"""


if __name__ == "__main__":
    load_before = os.getloadavg()[0]
    section = report(*measure(), load_before)
    results.put(section, TITLE)
    print(section)
