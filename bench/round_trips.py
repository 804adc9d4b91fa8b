"""`make bench-mongodb`: the commands that a turn sends to MongoDB, and how often it waits for an answer to one.

A proxy in a process of its own counts and delays. What a turn takes longer with the longest delay, divided by what a
ping takes longer, is the number of round trips that it waits for one after the other: so long a delay is more than what
else changes from turn to turn. MongoDB is a mongo-java-server in memory, or what `MONGODB_URL` names on this machine.
"""

import asyncio
import json
import os
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import external_services
import load_client
import results
import run
import servers
from figures import median, medians
from pymongo import MongoClient
from servers import Server

AGENT = "no-delay"
TURNS, WARM_UP, ROUNDS = 60, 10, 3
DELAYS_MS = (0, 2, 20)
AT_ONCE = 50
TRIPS_LIMIT, COMMANDS_LIMIT, ABOVE_IN_PROCESS_MS = 4, 4, 10
TITLE = "On MongoDB"
_IDLE_S = 5.0
_PINGS = 200
# A person reads the answer before the next question: what need not be waited for is done by then.
_READING_S = 0.1
# What is rarer per turn is the server's, not the turn's.
_LEAST = 0.05
NEEDED_FOR = {
    "insert exchanges": "admits the exchange: only one has its session and its id of the client's",
    "insert messages": "the question, before anybody sees it, and then the answer; they don't count yet",
    "findAndModify sessions": "counts the question, and then the answer with its end: the fence against dead owners",
    "insert session_states": "what the graph goes on from, too large for the session's document",
    "update usage": "the records of the model's calls, at the same time as the answer",
    "update kpi_records": "after the answer: the KPIs, which the session keeps until then",
    "update session_states": "after the answer: counts the state, also for servers of the release before",
    "update exchanges": "after the answer, last: shows the end, and lets the next exchange begin",
    "find session_states": "each eighth turn: finds the states that are too many",
    "delete session_states": "each eighth turn: removes them",
}
"""Why a command is sent, by its name and its collection."""
# What a driver sends by itself.
_OF_THE_DRIVER = ("hello", "ismaster", "isMaster", "ping", "endSessions", "buildInfo")


def counted(proxy: Server) -> Counter[str]:
    """The commands so far, by name and collection."""
    with urllib.request.urlopen(f"{proxy.internal}", timeout=10) as answer:
        told: dict[str, int] = json.loads(answer.read())
    return Counter({name: times for name, times in told.items() if not name.startswith(_OF_THE_DRIVER)})


@dataclass(frozen=True)
class Warm:
    """The turns of one session, which is warm: their commands, each per turn, and their time."""

    commands: Mapping[str, float]
    turn_ms: float
    """Of one that is asked at once after the one before."""
    calm_ms: float
    """Of one that is asked a moment after the one before."""
    ping_ms: float

    @property
    def total(self) -> float:
        return sum(self.commands.values())


async def warm(server: Server, proxy: Server) -> Warm:
    """Without what the server sends also while it is idle."""
    load = load_client.Load()
    async with load_client.socket_to(server) as socket:
        final = await load_client.turn(socket, load, {"agent_id": AGENT})
        ask = {"agent_id": AGENT, "session_id": json.loads(final)["session_id"]}
        for _ in range(WARM_UP):
            await load_client.turn(socket, load, ask)
        before = await asyncio.to_thread(counted, proxy)
        await asyncio.sleep(_IDLE_S)
        idle = await asyncio.to_thread(counted, proxy) - before
        before, began, load = await asyncio.to_thread(counted, proxy), time.monotonic(), load_client.Load()
        for _ in range(TURNS):
            await load_client.turn(socket, load, ask)
        took_s, sent = time.monotonic() - began, await asyncio.to_thread(counted, proxy) - before
        calm = load_client.Load()
        for _ in range(TURNS):
            await asyncio.sleep(_READING_S)
            await load_client.turn(socket, calm, ask)
    per_turn = {name: (sent[name] - idle[name] / _IDLE_S * took_s) / TURNS for name in sent}
    commands = {name: times for name, times in per_turn.items() if times >= _LEAST}
    return Warm(commands, median(load.turn), median(calm.turn), await asyncio.to_thread(ping_ms, proxy))


def ping_ms(proxy: Server) -> float:
    took: list[float] = []
    with MongoClient[dict[str, object]](_url(proxy)) as client:
        for _ in range(_PINGS):
            began = time.perf_counter()
            client.admin.command("ping")
            took.append((time.perf_counter() - began) * 1000)
    return median(took)


async def crowded(server: Server, proxy: Server) -> float:
    """The commands of a turn that opens a session, AT_ONCE of them at a time; with what the server sends by itself."""
    await load_client.measure(server, AGENT, 5, 20)
    turns, before = 4 * AT_ONCE, await asyncio.to_thread(counted, proxy)
    await load_client.measure(server, AGENT, AT_ONCE, turns)
    return (await asyncio.to_thread(counted, proxy) - before).total() / turns


@dataclass(frozen=True)
class Measured:
    warm: Mapping[int, Warm]
    """By the delay in ms."""
    in_process_ms: float
    loads: Mapping[str, Mapping[str, float]]
    """The figures of both stores, AT_ONCE at once."""
    crowded: float
    """The commands of a turn, AT_ONCE at once."""


def measure() -> Measured:
    found: dict[int, list[Warm]] = {delay: [] for delay in DELAYS_MS}
    crowd: list[float] = []
    in_process: list[float] = []
    loads: dict[str, list[dict[str, float]]] = {"SQLite": [], "MongoDB": []}
    with tempfile.TemporaryDirectory() as name, external_services.mongodb_in_memory() as url:
        directory, port = Path(name), urlsplit(url).port or 27017
        for number in range(ROUNDS):
            in_process.append(run.in_process(AGENT, 1)["turn_p50"])
            for delay in DELAYS_MS:
                data = directory / f"{delay}-{number}"
                with (
                    servers.mongo_proxy(directory, port, delay) as proxy,
                    servers.product(data, "--store", _url(proxy)) as server,
                ):
                    found[delay].append(asyncio.run(warm(server, proxy)))
                    if delay == 0:
                        crowd.append(asyncio.run(crowded(server, proxy)))
            for store, options in (("SQLite", ()), ("MongoDB", ("--store", url))):
                with servers.product(directory / f"{store}-{number}", *options) as server:
                    asyncio.run(load_client.measure(server, AGENT, 5, 20))
                    loads[store].append(asyncio.run(load_client.measure(server, AGENT, AT_ONCE, 6 * AT_ONCE)))
    middles = {delay: sorted(each, key=lambda one: one.turn_ms)[ROUNDS // 2] for delay, each in found.items()}
    stores = {store: medians(each) for store, each in loads.items()}
    return Measured(middles, median(in_process), stores, median(crowd))


def _url(proxy: Server) -> str:
    # Its own name for itself leads past the proxy.
    return f"mongodb://{urlsplit(proxy.address).netloc}/?directConnection=true"


def report(measured: Measured, load: float) -> str:
    near, far, farthest = (measured.warm[delay] for delay in DELAYS_MS)
    commands = "\n".join(
        f"| {name} | {times:.2f} | {NEEDED_FOR.get(name, '')} |" for name, times in sorted(near.commands.items())
    )
    stores = "\n".join(
        f"| {store} | {of['turns_per_s']:.1f} | {of['cpu_ms']:.1f} | {of['first_token_p50']:.0f} |"
        for store, of in measured.loads.items()
    )
    trip_ms = farthest.ping_ms - near.ping_ms
    targets = "\n".join(
        f"| {name} | ≤ {limit} | {got:.1f} | {'yes' if round(got, 1) <= limit else 'no'} |"
        for name, limit, got in (
            ("round trips that a turn waits for", TRIPS_LIMIT, (farthest.calm_ms - near.calm_ms) / trip_ms),
            ("the same, asked at once after the answer", TRIPS_LIMIT, (farthest.turn_ms - near.turn_ms) / trip_ms),
            ("commands of a warm turn without tools", COMMANDS_LIMIT, near.total),
            (f"commands of a turn, {AT_ONCE} at a time", COMMANDS_LIMIT, measured.crowded),
            (
                "the turn with 2 ms between, ms above in process",
                ABOVE_IN_PROCESS_MS,
                far.calm_ms - measured.in_process_ms,
            ),
        )
    )
    return f"""`make bench-mongodb` on {datetime.now(UTC):%Y-%m-%d}, with a load of {load:.1f} when this began: \
medians of {ROUNDS} rounds on a mongo-java-server in memory that shares the machine, or what `MONGODB_URL` names. A \
proxy counts the commands of {TURNS} turns of one session, less those that an idle server sends.

A question waits for two round trips: the rows that don't count yet, all at once, then the compare-and-set that counts \
them. So does an answer. What is written after that keeps nobody waiting but a question that comes at once; for many \
sessions together it takes one command for each collection.

| ms, with so much in each round trip | {" | ".join(f"{delay} ms" for delay in DELAYS_MS)} |
|---|---|---|---|
| a ping | {near.ping_ms:.1f} | {far.ping_ms:.1f} | {farthest.ping_ms:.1f} |
| a turn, {_READING_S} s after the one before | {near.calm_ms:.1f} | {far.calm_ms:.1f} | {farthest.calm_ms:.1f} |
| a turn, at once after the one before | {near.turn_ms:.1f} | {far.turn_ms:.1f} | {farthest.turn_ms:.1f} |
| a turn in process | {measured.in_process_ms:.1f} | | |

| command and collection | per turn | what for |
|---|---|---|
{commands}

| no delay, {AT_ONCE} at a time, each turn in a session of its own | turns/s | CPU ms/turn | first token p50 ms |
|---|---|---|---|
{stores}

| target | wanted | got | reached |
|---|---|---|---|
{targets}
"""


if __name__ == "__main__":
    load_before = os.getloadavg()[0]
    section = report(measure(), load_before)
    results.put(section, TITLE)
    print(section)
