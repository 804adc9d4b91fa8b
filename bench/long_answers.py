"""`make bench-long`: what very long answers cost in memory, and exchanges of very many messages in CPU.

Run as `python long_answers.py [TOKENS MESSAGES]`. The limits of what a model may say are raised by settings: by default
a call ends after 8 MiB. Memory is the process's resident memory at its peak, above what it was before the ask.
"""

import asyncio
import json
import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import load_client
import results
import servers
from servers import Server
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

TOKENS, MESSAGES = 2_000_000, 5_000
MOST_MIB, LINEAR = 64, 1.2
TITLE = "Long answers and exchanges"
_LONGEST_S = 1_200
_FIRST = 100
_LIMITS = {"AGENTIC_LIMITS__MODEL_CALL_BYTES": "67108864", "AGENTIC_LIMITS__MODEL_RUN_BYTES": "67108864"}


class Cost(NamedTuple):
    count: int
    cpu_s: float
    peak_mib: float
    messages: int


async def ask(server: Server, agent: str, count: int) -> int:
    """Ask for so many tokens or messages; the number of messages in the final."""
    url = server.address.replace("http", "ws", 1) + load_client.PATH
    async with connect(url, subprotocols=[Subprotocol("chat.v2")], max_size=None) as socket:
        await socket.send(json.dumps({"message": str(count), "agent_id": agent}))
        async with asyncio.timeout(_LONGEST_S):
            while True:
                event = json.loads(await socket.recv())
                if event["type"] == "final":
                    assert event["status"] == "ok", event["status"]
                    return len(event["messages"])


def memory_kib(server: Server, name: str) -> int:
    return int(Path(f"/proc/{server.pid}/status").read_text().partition(f"{name}:")[2].split()[0])


def measure(agent: str, count: int) -> Cost:
    """In a process of its own, which has answered once."""
    with (
        tempfile.TemporaryDirectory() as name,
        servers.product(Path(name), catalog="long_catalog.yaml", environment=_LIMITS) as server,
    ):
        asyncio.run(ask(server, agent, _FIRST))
        before_kib, before_s = memory_kib(server, "VmRSS"), server.cpu_s()
        messages = asyncio.run(ask(server, agent, count))
        cost = Cost(count, server.cpu_s() - before_s, (memory_kib(server, "VmHWM") - before_kib) / 1024, messages)
        print(agent, cost, flush=True)
        return cost


def report(found: dict[str, list[Cost]], load: float) -> str:
    lines = "\n".join(
        f"| {name} | {cost.count:,} | {cost.messages:,} | {cost.cpu_s:.1f} | {cost.cpu_s / cost.count * 1e6:,.0f} "
        f"| {cost.peak_mib:.0f} |"
        for name, costs in found.items()
        for cost in costs
    )
    longest = found["an answer, tokens of 5 characters"][-1]
    targets = [(f"an answer of {longest.count:,} tokens, MiB", MOST_MIB, longest.peak_mib)]
    for name, costs in list(found.items())[1:]:
        each = [cost.cpu_s / cost.count for cost in costs]
        targets.append(
            (f"{name}: CPU of each at {costs[-1].count:,}, × at {costs[0].count:,}", LINEAR, each[-1] / each[0])
        )
    rows = "\n".join(
        f"| {name} | ≤ {limit} | {got:.1f} | {'yes' if got <= limit else 'no'} |" for name, limit, got in targets
    )
    return f"""`make bench-long` on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, with a load of \
{load:.1f} when this began. Each row is one exchange in a process of its own, over a socket, stored in SQLite; \
`limits.model_call_bytes` is raised to 64 MiB, and the loop's `limits.steps` to 100,000.

| exchange | count | messages of the final | CPU s | CPU µs each | MiB above idle |
|---|---|---|---|---|---|
{lines}

| target | wanted | got | reached |
|---|---|---|---|
{rows}
"""


def main(tokens: int, messages: int) -> None:
    load = os.getloadavg()[0]
    found = {
        "an answer, tokens of 5 characters": [measure("answering", count) for count in (tokens // 4, tokens)],
        "a loop of tools, messages": [measure("calling", count) for count in (messages // 5, messages // 2, messages)],
        "a node's messages": [measure("saying", count) for count in (messages // 5, messages // 2, messages)],
    }
    section = report(found, load)
    print(section)
    if (tokens, messages) == (TOKENS, MESSAGES):
        results.put(section, TITLE)


if __name__ == "__main__":
    main(*(map(int, sys.argv[1:3]) if sys.argv[2:] else (TOKENS, MESSAGES)))
