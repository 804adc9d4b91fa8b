"""How long writes of several processes wait for the lock of one SQLite file, with the store's own connection.

Run as `python lock_waits.py FILE WRITES_PER_S SECONDS` it is one of the processes, and prints its waits in ms as JSON.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from figures import percentile
from servers import HERE

from agentic_backend.stores.sqlite.connection import SqliteConnection

# Processes, and how often each writes in a second: as five turns a second do, or as often as it can.
CASES = ((1, 25), (8, 25), (8, None))
SECONDS = 15.0
_ROW = "x" * 1_000
_TIMEOUT_S = 30.0


def measure(directory: Path) -> dict[str, dict[str, float]]:
    """The waits in ms by the case, whose processes write to one file at the same time."""
    found = {}
    for number, (count, writes_per_s) in enumerate(CASES):
        file = directory / f"locks-{number}.sqlite3"
        with sqlite3.connect(file) as db:
            db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")
        db.close()
        command = [sys.executable, "lock_waits.py", str(file), str(writes_per_s or 0), str(SECONDS)]
        started = [subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        waits: list[float] = []
        for process in started:
            output, _ = process.communicate(timeout=SECONDS + 2 * _TIMEOUT_S)
            waits += json.loads(output)
        often = f"{writes_per_s} a second each" if writes_per_s else "without a pause"
        found[f"{count}, {often}"] = _figures(waits)
    return found


def _figures(waits: Sequence[float]) -> dict[str, float]:
    return {"writes": len(waits), **{f"p{of}": percentile(waits, of) for of in (50, 95, 99)}, "longest": max(waits)}


async def _write(file: Path, per_s: int, seconds: float) -> list[float]:
    connection = await SqliteConnection.open(file, timeout_s=_TIMEOUT_S)
    waits, until = [], time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            if per_s:
                await asyncio.sleep(random.expovariate(per_s))
            began = time.perf_counter()
            has_lock = await connection.write("bench", _insert)
            waits.append((has_lock - began) * 1000)
    finally:
        await connection.aclose()
    return waits


def _insert(db: sqlite3.Connection) -> float:
    """When the transaction had the lock."""
    now = time.perf_counter()
    db.executemany("INSERT INTO rows (text) VALUES (?)", [(_ROW,)] * 3)
    return now


if __name__ == "__main__":
    path, per_second, for_s = sys.argv[1:]
    print(json.dumps(asyncio.run(_write(Path(path), int(per_second), float(for_s)))))
