"""`make bench`: the product beside its two limits, in one run, as a table of medians and ratios in RESULTS.md."""

import asyncio
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import build_agent
import doors
import external_services
import load_client
import long_context
import results
import servers
import verify_tokens
from figures import median
from scripted_graph import TOKENS

ROUNDS = 3
CONCURRENCIES = (1, 10, 50)
ON_MONGODB = (1, 50)
AGENTS = {"no-delay": (0, TOKENS), "five-ms": (5, TOKENS), "one-token": (0, 1)}
"""The milliseconds between the tokens, and their number."""
LONG_SESSION = (10, 100, 1000)
IDLE_SOCKETS = 500
SOAK_TURNS = (5_000, 10_000, 15_000, 20_000)
PACKAGES = ("langgraph", "langchain-core", "starlette", "uvicorn", "websockets", "uvloop", "pydantic", "aiosqlite")

Figures = dict[str, float]


@dataclass(frozen=True)
class Target:
    """One line of what is to be reached."""

    name: str
    reached: Callable[[dict[str, Figures]], float]
    limit: float
    at_least: bool = False

    def line(self, cases: dict[str, Figures]) -> str:
        value = self.reached(cases)
        met = value >= self.limit if self.at_least else value <= self.limit
        sign = "≥" if self.at_least else "≤"
        return f"| {self.name} | {sign} {self.limit:g} | {value:.2f} | {'yes' if met else 'no'} |"


def beside(case: str, figure: str, limit: str) -> Callable[[dict[str, Figures]], float]:
    """The ratio of a figure of one case to that of another."""
    return lambda cases: cases[case][figure] / cases[limit][figure]


def above(load: str) -> Callable[[dict[str, Figures]], float]:
    """The ms by which the first token comes later than in process."""
    return lambda cases: cases[f"product {load}"]["first_token_p50"] - cases[f"in process {load}"]["first_token_p50"]


TARGETS = (
    Target(
        "CPU per turn, one token, 1 at a time, × in process",
        beside("product one-token 1", "cpu_ms", "in process one-token 1"),
        3,
    ),
    Target(
        "turns/s, no delay, 50 at a time, × in process",
        beside("product no-delay 50", "turns_per_s", "in process no-delay 50"),
        0.9,
        at_least=True,
    ),
    Target(
        "CPU per turn, no delay, 50 at a time, × in process",
        beside("product no-delay 50", "cpu_ms", "in process no-delay 50"),
        1.3,
    ),
    Target(
        "turns/s, 5 ms, 50 at a time, × in process",
        beside("product five-ms 50", "turns_per_s", "in process five-ms 50"),
        0.97,
        at_least=True,
    ),
    Target(
        "CPU per turn, 5 ms, 50 at a time, × in process",
        beside("product five-ms 50", "cpu_ms", "in process five-ms 50"),
        1.25,
    ),
    Target(
        "p95 of the turn, 5 ms, 50 at a time, × in process",
        beside("product five-ms 50", "turn_p95", "in process five-ms 50"),
        1.2,
    ),
    Target("first token, 5 ms, 1 at a time, p50, ms above in process", above("five-ms 1"), 3),
    Target("first token, no delay, 1 at a time, p50, ms above in process", above("no-delay 1"), 3),
    *(
        Target(
            f"{name}, {agent}, 50 at a time, on MongoDB × on SQLite",
            beside(f"product on MongoDB {agent} 50", figure, f"product {agent} 50"),
            limit,
            at_least=figure == "turns_per_s",
        )
        for agent in ("no-delay", "five-ms")
        for name, figure, limit in (("turns/s", "turns_per_s", 0.8), ("first token, p50", "first_token_p50", 2))
    ),
    Target(
        "CPU per turn on the dearest door, × the WebSocket's",
        lambda c: max(
            figure / of[doors.WEBSOCKET]
            for of in (c[f"doors {agent_id}"] for agent_id in doors.TURNS)
            for figure in of.values()
        ),
        doors.LIMIT,
    ),
    Target("the 1,000th exchange, × the 10th", lambda c: c["long session"]["1000"] / c["long session"]["10"], 1.2),
    Target(
        "disk per exchange, second half × first half of a session",
        lambda c: c["disk"]["second_half"] / c["disk"]["first_half"],
        1.05,
    ),
    Target("the context of 10,000 messages, cold, ms", lambda c: c["context"]["cold 20"], 20),
    Target("the same, warm, with as many exchanges as fit into 128k, ms", lambda c: c["context"]["warm all, 128k"], 20),
    Target("an access token, ms", lambda c: c["access token"]["ms"], 0.2),
    Target("an agent with an MCP server, the first of a process, ms", lambda c: c["build"]["first"], 300),
    Target("an idle socket, × the bare server's", lambda c: c["idle"]["product"] / c["idle"]["bare"], 1.3),
    Target(
        "memory after 20,000 turns, × after 10,000",
        lambda c: c["soak"]["after_20000"] / c["soak"]["after_10000"],
        1.01,
    ),
)


def turns_for(agent: str, concurrency: int) -> int:
    """Enough turns for a stable figure within some ten seconds."""
    return {1: 10, 10: 60, 50: 300}[concurrency] if agent == "five-ms" else {1: 100, 10: 300, 50: 600}[concurrency]


def in_process(agent: str, concurrency: int) -> Figures:
    arguments = [*AGENTS[agent], concurrency, turns_for(agent, concurrency)]
    command = [sys.executable, "in_process.py", *map(str, arguments)]
    output = subprocess.run(command, cwd=servers.HERE, check=True, capture_output=True, text=True, timeout=300).stdout
    figures: Figures = json.loads(output)
    return figures


def one_round(directory: Path) -> dict[str, Figures]:
    cases: dict[str, Figures] = {}
    for agent in AGENTS:
        for concurrency in CONCURRENCIES:
            cases[f"in process {agent} {concurrency}"] = in_process(agent, concurrency)
    with servers.bare(directory) as bare:
        for concurrency in CONCURRENCIES:
            turns = turns_for("no-delay", concurrency)
            cases[f"bare socket {concurrency}"] = asyncio.run(load_client.measure(bare, "none", concurrency, turns))
    with servers.product(directory) as product:
        for agent in AGENTS:
            asyncio.run(load_client.measure(product, agent, 5, 20))
            for concurrency in CONCURRENCIES:
                turns = turns_for(agent, concurrency)
                cases[f"product {agent} {concurrency}"] = asyncio.run(
                    load_client.measure(product, agent, concurrency, turns)
                )
    with (
        external_services.mongodb_in_memory() as url,
        servers.product(directory / "on-mongodb", "--store", url) as product,
    ):
        asyncio.run(load_client.measure(product, "no-delay", 5, 20))
        for agent in ("no-delay", "five-ms"):
            for concurrency in ON_MONGODB:
                turns = turns_for(agent, concurrency)
                cases[f"product on MongoDB {agent} {concurrency}"] = asyncio.run(
                    load_client.measure(product, agent, concurrency, turns)
                )
    cases["idle"] = {}
    with servers.bare(directory) as bare:
        cases["idle"]["bare"] = asyncio.run(load_client.idle_sockets(bare, IDLE_SOCKETS))
    with servers.product(directory / "idle") as product:
        cases["idle"]["product"] = asyncio.run(load_client.idle_sockets(product, IDLE_SOCKETS))
    with servers.product(directory / "long") as product:
        times = asyncio.run(load_client.grow_session(product, "no-delay", max(LONG_SESSION) + 5))
        cases["long session"] = {str(n): median(times[n - 5 : n + 5]) for n in LONG_SESSION}
    return cases


def disk(directory: Path) -> Figures:
    """Bytes that an exchange takes in the database, over the first and the second 500 of one session."""
    sizes = []
    for exchanges in (1, 500, 1000):
        data = directory / f"disk-{exchanges}"
        with servers.product(data) as product:
            asyncio.run(load_client.grow_session(product, "no-delay", exchanges))
        sizes.append(sum(file.stat().st_size for file in data.glob("chat.sqlite3*")))
    return {"first_half": (sizes[1] - sizes[0]) / 499, "second_half": (sizes[2] - sizes[1]) / 500}


def soak(directory: Path) -> Figures:
    """Resident memory in KiB after so many turns."""
    with servers.product(directory / "soak") as product:
        memory: Figures = {}
        done = 0
        for turns in SOAK_TURNS:
            asyncio.run(load_client.measure(product, "no-delay", 50, turns - done))
            memory[f"after_{turns}"], done = float(product.memory_kib()), turns
    return memory


def medians(rounds: list[dict[str, Figures]]) -> dict[str, Figures]:
    return {
        case: {figure: median([one[case][figure] for one in rounds]) for figure in figures}
        for case, figures in rounds[0].items()
    }


def table(cases: dict[str, Figures]) -> str:
    columns = ("first_token_p50", "first_token_p95", "turn_p50", "turn_p95", "turns_per_s", "cpu_ms", "frames")
    lines = [
        "| case, concurrency | first token p50 ms | p95 | turn p50 ms | p95 | turns/s | CPU ms/turn | frames/turn "
        "| turns/s × in process | × bare socket | CPU × in process |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case, figures in cases.items():
        if "turns_per_s" in figures:
            shown = [f"{figures[column]:.1f}" if column in figures else "–" for column in columns]
            lines.append(f"| {case} | {' | '.join([*shown, *ratios(case, cases)])} |")
    return "\n".join(lines)


def ratios(case: str, cases: dict[str, Figures]) -> list[str]:
    """A product's turns/s beside those of both limits, and its CPU time beside that in process."""
    words = case.split()
    if words[0] != "product":
        return ["", "", ""]
    load = " ".join(words[-2:])
    figures, limit, bare = cases[case], cases[f"in process {load}"], cases[f"bare socket {load.split()[1]}"]
    without_delay = load.startswith("no-delay")
    return [
        f"{figures['turns_per_s'] / limit['turns_per_s']:.2f}",
        f"{figures['turns_per_s'] / bare['turns_per_s']:.2f}" if without_delay else "–",
        f"{figures['cpu_ms'] / limit['cpu_ms']:.2f}",
    ]


def report(cases: dict[str, Figures]) -> str:
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    long_session = ", ".join(f"{n}th: {ms:.1f} ms" for n, ms in cases["long session"].items())
    memory = ", ".join(f"after {n:,} turns {cases['soak'][f'after_{n}'] / 1024:.0f} MiB" for n in SOAK_TURNS)
    context = ", ".join(f"{case} {ms:.1f} ms" for case, ms in cases["context"].items())
    refused = {case: figures["refused"] for case, figures in cases.items() if figures.get("refused")}
    return f"""# Results

`make bench` on {datetime.now(UTC):%Y-%m-%d}: medians of {ROUNDS} rounds, each round measures limits and product
one after the other. Python {platform.python_version()}, {versions}. One process, default settings, every message
stored, 200 tokens of 5 characters per answer; the load runs in a process of its own on the same machine, so compare
figures of one run only.

- *in process*: `graph.astream(stream_mode="messages")` on the same graph, without a checkpointer.
- *bare socket*: uvicorn (`websockets-sansio`) that sends 200 frames.
- *one-token*: the same with one token: what a turn costs whatever its length.
- *product on MongoDB*: the same with `--store`, on a mongo-java-server (or what `MONGODB_URL` names) that shares the
machine; the other figures are those of SQLite.

{table(cases)}

{doors.table({agent_id: cases[f"doors {agent_id}"] for agent_id in doors.TURNS})}

- Asks refused as too much, and sent again: {refused or "none"}.
- The turn within one session: {long_session}.
- Disk per exchange: {cases["disk"]["first_half"]:.0f} bytes in the first 500 of a session, \
{cases["disk"]["second_half"]:.0f} in the next.
- An idle socket: {cases["idle"]["product"]:.1f} KiB, in the bare server {cases["idle"]["bare"]:.1f} KiB.
- Memory in one process: {memory}.
- An agent with one MCP server over HTTP, which runs already, is built in {cases["build"]["others"]:.0f} ms, the first \
of a process in {cases["build"]["first"]:.0f} ms.
- The context of a session of 10,000 messages, read from SQLite or warm in the agent, with 20 exchanges or all that \
fit into a window of 8k or 128k tokens: {context}.
- An access token of Keycloak's is checked in {cases["access token"]["ms"]:.3f} ms.

| target | wanted | got | reached |
|---|---|---|---|
{chr(10).join(target.line(cases) for target in TARGETS)}
"""


def main() -> None:
    parts = {"access token": verify_tokens.measure(), "build": build_agent.measure(), "context": long_context.measure()}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        cases = medians([one_round(directory / str(number)) for number in range(ROUNDS)])
        cases["disk"] = disk(directory)
        cases["soak"] = soak(directory)
    cases |= parts | {f"doors {agent_id}": of for agent_id, of in doors.measure().items()}
    text = report(cases)
    results.put(text)
    print(text)


if __name__ == "__main__":
    main()
