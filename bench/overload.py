"""`make bench-overload`: what fairness among streams costs, and what becomes of asks where a server gets twice as many
as it can answer, or little of a core. Bounded, on loopback, some ten minutes.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import load_client
import results
import servers
from figures import medians, percentile
from scripted_graph import TOKENS
from servers import Server
from websockets.asyncio.client import ClientConnection

AGENT, AT_ONCE, TURNS, WARM_UP, ROUNDS, PAIRS = "no-delay", 50, 150, 60, 6, 6
OVERLOAD, LOAD_S, SOCKETS = 2.0, 120, 2000
# The share of a core that a starved server gets, in slices of this many seconds, and the asks that it gets each second.
SHARE, EVERY_S, STARVED_ASKS_PER_S, STARVED_S = 0.15, 0.1, 15, 60
_LONGEST_S = 300
_HEALTHY = 3
# For longer than the server keeps what has ended for those who come back.
_AT_REST_S = 90
TITLE = "Overload"


@contextmanager
def starved(server: Server, share: float) -> Iterator[None]:
    """The server gets this share of a core."""
    is_over = threading.Event()

    def lend() -> None:
        while not is_over.wait(EVERY_S * share):
            os.kill(server.pid, signal.SIGSTOP)
            is_over.wait(EVERY_S * (1 - share))
            os.kill(server.pid, signal.SIGCONT)

    lending = threading.Thread(target=lend)
    lending.start()
    try:
        yield
    finally:
        is_over.set()
        lending.join()


@dataclass
class Asked:
    """What became of the asks of a load; times in s."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """`ok`, or the code of the refusal or of the final's error."""
    admitted: int = 0
    took: list[float] = field(default_factory=list)
    """Of those that were answered."""
    ended: list[float] = field(default_factory=list)
    """When, by the monotonic clock."""
    refused: list[float] = field(default_factory=list)
    """How long the others waited for their refusals."""
    idle: list[ClientConnection] = field(default_factory=list)
    """The sockets on which nothing is asked."""

    async def ask(self) -> None:
        socket, began = self.idle.pop(), time.monotonic()
        await socket.send(json.dumps({"type": "ask", "message": "hello", "agent_id": AGENT}))
        async with asyncio.timeout(_LONGEST_S):
            async for frame in socket:
                assert isinstance(frame, str)
                if frame.startswith(('{"type":"final"', '{"type":"error"')):
                    break
        told = json.loads(frame)
        refused = told["type"] == "error"
        self.admitted += not refused
        self.outcomes[told["code"] if refused else (told.get("error") or {}).get("code", told["status"])] += 1
        if refused:
            self.refused.append(time.monotonic() - began)
        else:
            self.took.append(time.monotonic() - began)
            self.ended.append(time.monotonic())
        self.idle.append(socket)


async def load(server: Server, asks_per_s: float, seconds: float) -> tuple[Asked, float]:
    """So many asks each second, whether the others are answered or not; and when the last one was sent."""
    asked = Asked()
    for _ in range(SOCKETS // 50):
        asked.idle += await asyncio.gather(*(load_client.socket_to(server) for _ in range(50)))
    began = time.monotonic()
    async with asyncio.TaskGroup() as asks:
        for number in range(int(asks_per_s * seconds)):
            await asyncio.sleep(max(0.0, began + number / asks_per_s - time.monotonic()))
            asks.create_task(asked.ask())
        ended = time.monotonic()
    return asked, ended


async def overloaded(server: Server, asks_per_s: float, seconds: float) -> dict[str, float]:
    alone = (await load_client.measure(server, AGENT, 1, 20))["turn_p50"] / 1000
    memory = server.memory_kib()
    asked, ended = await load(server, asks_per_s, seconds)
    # Of itself, once the load is over: when is a turn again what it was?
    while (turn := (await load_client.measure(server, AGENT, 1, 1))["turn_p50"] / 1000) > _HEALTHY * alone + 0.1:
        assert time.monotonic() - ended < _LONGEST_S, turn
    recovered = time.monotonic()
    for socket in asked.idle:
        socket.transport.abort()
    refused = asked.outcomes["overloaded"] + asked.outcomes["too_many_runs"]
    print(asked.outcomes, file=sys.stderr)
    after = server.memory_kib()
    await asyncio.sleep(_AT_REST_S)
    return {
        "asks": asked.outcomes.total(),
        "admitted": asked.admitted,
        "answered": asked.outcomes["ok"],
        "refused": refused,
        "took_p50": percentile(asked.took, 50),
        "took_p95": percentile(asked.took, 95),
        "took_max": max(asked.took),
        "refused_p95": percentile(asked.refused, 95) if asked.refused else 0.0,
        "turns_per_s": asked.outcomes["ok"] / (max(asked.ended) - ended + seconds),
        "recovered_s": max(0.0, recovered - ended),
        "memory_mib": memory / 1024,
        "memory_after_mib": after / 1024,
        "memory_at_rest_mib": server.memory_kib() / 1024,
    }


def in_process() -> dict[str, float]:
    command = [sys.executable, "in_process.py", "0", str(TOKENS), str(AT_ONCE), str(TURNS)]
    output = subprocess.run(command, cwd=servers.HERE, check=True, capture_output=True, text=True, timeout=300).stdout
    figures: dict[str, float] = json.loads(output)
    return figures


def fairness(directory: Path) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """The figures of each side, and the medians of their ratios, fair to unfair.

    Rounds of one server differ by more than the sides do, and so do two processes of one program. So the sides take
    turns of some seconds, neighbours are compared, and that in several pairs of processes.
    """
    rounds: dict[str, list[dict[str, float]]] = {"in process": [], "fair": [], "unfair": []}
    for number in range(PAIRS):
        rounds["in process"].append(in_process())
        with (
            servers.product(directory / f"fair-{number}") as fair,
            servers.product(directory / f"unfair-{number}", program=("unfair_server.py",)) as unfair,
        ):
            sides = [("fair", fair), ("unfair", unfair)]
            for _, server in sides:
                asyncio.run(load_client.measure(server, AGENT, 10, WARM_UP))
            for _ in range(ROUNDS):
                for name, server in sides:
                    rounds[name].append(asyncio.run(load_client.measure(server, AGENT, AT_ONCE, TURNS)))
                sides.reverse()
    pairs = zip(rounds["fair"], rounds["unfair"], strict=True)
    ratios = medians([{name: one[name] / other[name] for name in ("turns_per_s", "cpu_ms")} for one, other in pairs])
    return {name: medians(each) for name, each in rounds.items()}, ratios


@dataclass(frozen=True)
class Target:
    name: str
    limit: float
    got: float
    at_least: bool = False

    @property
    def line(self) -> str:
        met = self.got >= self.limit if self.at_least else self.got <= self.limit
        sign = "≥" if self.at_least else "≤"
        return f"| {self.name} | {sign} {self.limit:g} | {self.got:.2f} | {'yes' if met else 'no'} |"


def report(
    fair: Mapping[str, Mapping[str, float]], ratios: Mapping[str, float], loads: Mapping[str, Mapping[str, float]]
) -> str:
    turns = "\n".join(
        f"| {name} | {of['turns_per_s']:.1f} | {of['cpu_ms']:.1f} | {of['first_token_p50']:.0f} "
        f"| {of['first_token_p95']:.0f} | {of['turn_p50']:.0f} | {of['turn_p95']:.0f} |"
        for name, of in fair.items()
    )
    lines = "\n".join(
        f"| {name} | {of['asks']:.0f} | {of['refused']:.0f} | {of['admitted']:.0f} | {of['answered']:.0f} "
        f"| {of['turns_per_s']:.1f} | {of['took_p50']:.1f} | {of['took_p95']:.1f} | {of['took_max']:.1f} "
        f"| {of['recovered_s']:.1f} | {of['memory_mib']:.0f} | {of['memory_after_mib']:.0f} "
        f"| {of['memory_at_rest_mib']:.0f} |"
        for name, of in loads.items()
    )
    here, there = fair["fair"], fair["in process"]
    targets = [
        Target("turns/s at saturation, × unfair", 0.97, ratios["turns_per_s"], at_least=True),
        Target("CPU of a turn, × unfair", 1.03, ratios["cpu_ms"]),
        Target("p95 of the turn, × in process", 1.2, here["turn_p95"] / there["turn_p95"]),
        Target("p95 of the first token, × in process", 1.5, here["first_token_p95"] / there["first_token_p95"]),
    ]
    for name, of in loads.items():
        targets.append(Target(f"{name}: answered of admitted", 1, of["answered"] / of["admitted"], at_least=True))
        targets.append(Target(f"{name}: recovered after, s", 5, of["recovered_s"]))
    told = "\n".join(target.line for target in targets)
    return f"""`make bench-overload` on {datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, with a \
load of {os.getloadavg()[0]:.1f} at its end: medians of {PAIRS * ROUNDS} rounds in {PAIRS} processes of each side, \
in which the sides take turns, {AT_ONCE} at a time without delay. *Unfair* is the product in which each stream goes \
on for as long as it has chunks; a ratio to it is the median of those of neighbouring rounds.

| | turns/s | CPU ms/turn | first token p50 ms | p95 | turn p50 ms | p95 |
|---|---|---|---|---|---|---|
{turns}

Asks that come whether others are answered or not: {OVERLOAD:g} times what is answered at saturation for {LOAD_S} s, \
and {STARVED_ASKS_PER_S} a second for {STARVED_S} s where the server gets {SHARE:.0%} of a core.

| load | asks | refused | admitted | answered | turns/s | answer p50 s | p95 | longest | recovered after s \
| MiB before | after | {_AT_REST_S} s later |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
{lines}

| target | wanted | got | reached |
|---|---|---|---|
{told}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        fair, ratios = fairness(directory)
        loads = {}
        with servers.product(directory / "overloaded") as server:
            asyncio.run(load_client.measure(server, AGENT, 10, WARM_UP))
            asks_per_s = OVERLOAD * fair["fair"]["turns_per_s"]
            loads["twice saturation"] = asyncio.run(overloaded(server, asks_per_s, LOAD_S))
        with servers.product(directory / "starved") as server, starved(server, SHARE):
            loads["starved"] = asyncio.run(overloaded(server, STARVED_ASKS_PER_S, STARVED_S))
    text = report(fair, ratios, loads)
    results.put(text, TITLE)
    print(text)


if __name__ == "__main__":
    main()
