"""The first limit: the same graph and model with nothing around them, `graph.astream(stream_mode="messages")`.

Prints one line of JSON. Run as `python in_process.py DELAY_MS TOKENS CONCURRENCY TURNS`.
"""

import asyncio
import json
import sys
import time
from typing import Any

import uvloop
from figures import percentile
from langchain_core.messages import AIMessageChunk, HumanMessage
from langgraph.graph.state import CompiledStateGraph
from scripted_graph import build


async def measure(graph: CompiledStateGraph[Any, Any, Any, Any], concurrency: int, turns: int) -> dict[str, float]:
    """Figures of `turns` turns, `concurrency` at a time. Times in ms."""
    first_token: list[float] = []
    turn: list[float] = []

    async def one_turn() -> None:
        began, first = time.perf_counter(), None
        async for message, _ in graph.astream({"messages": [HumanMessage("hello")]}, stream_mode="messages"):
            if first is None and isinstance(message, AIMessageChunk) and message.content:
                first = time.perf_counter()
        first_token.append(((first or began) - began) * 1000)
        turn.append((time.perf_counter() - began) * 1000)

    await one_turn()
    first_token.clear()
    turn.clear()
    left = iter(range(turns))

    async def worker() -> None:
        for _ in left:
            await one_turn()

    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*[worker() for _ in range(concurrency)])
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "turns_per_s": turns / elapsed,
        "cpu_ms": cpu / turns * 1000,
        "first_token_p50": percentile(first_token, 50),
        "first_token_p95": percentile(first_token, 95),
        "turn_p50": percentile(turn, 50),
        "turn_p95": percentile(turn, 95),
    }


if __name__ == "__main__":
    delay_ms, tokens, concurrency, turns = (int(argument) for argument in sys.argv[1:])
    print(json.dumps(uvloop.run(measure(build(delay_ms / 1000, tokens), concurrency, turns))))
