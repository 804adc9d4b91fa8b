"""What a search of an application's records by vectors costs: 50,000 of 512 dimensions in ten parts, in SQLite.

`python vectors.py`: a minute, most of it to write the records. The vectors are random and lie around some hundred
centres, as those of texts do about their subjects. A bare product of all vectors and one says what the machine does.
"""

import resource
import tempfile
import time
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import uvloop
from figures import median, percentile
from held_loop import timed
from numpy.typing import NDArray

# A server loads it with the application, not with the first search.
import agentic_backend.records.vector_index  # noqa: F401
from agentic_backend.records.kinds import Kind, Record, Vectors
from agentic_backend.records.layout import Layout
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.record_search import RecordSearch
from agentic_backend.records.records import OwnRecords, Records
from agentic_backend.stores.sqlite import SqliteStore

RECORDS, DIMENSIONS, PARTS, CENTRES, SEARCHES, AT_ONCE = 50_000, 512, 10, 200, 300, 100
EVERY = [f"{part}" for part in range(PARTS)]


class Chunk(Record):
    text: str
    part: str


CHUNKS = Kind("chunk", Chunk, owner="application", vectors=Vectors("text", within="part"), most=100_000)


class Embedder:
    """Invented vectors, the same at each run."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)
        self._centres = self._random.standard_normal((CENTRES, DIMENSIONS), dtype=np.float32)

    def vector(self) -> NDArray[np.float32]:
        centre = self._centres[self._random.integers(CENTRES)]
        return centre + 0.8 * self._random.standard_normal(DIMENSIONS, dtype=np.float32)


def long_ago() -> datetime:
    """So that a search does not look again at what has just been written."""
    return datetime.now(UTC) - timedelta(minutes=10)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def write(store: SqliteStore, embedder: Embedder) -> None:
    records = Records(store, [Layout("bench", CHUNKS)])
    own = records.of(CHUNKS).of_application()
    began = time.perf_counter()
    for batch in range(RECORDS // AT_ONCE):
        chunk = Chunk(text="Some words of a text. " * 40, part=EVERY[batch % PARTS])
        await records.write([own.adding(chunk, vector=embedder.vector().tobytes()) for _ in range(AT_ONCE)])
    print(f"{RECORDS:,} records with vectors of {DIMENSIONS} written in {time.perf_counter() - began:.0f} s")


async def measure(store: SqliteStore, embedder: Embedder) -> None:
    cache = PartitionCache()
    own = Records(store, [Layout("bench", CHUNKS)], RecordSearch(store, cache)).of(CHUNKS).of_application()
    before_mb = resident_mb()
    took_s, held_s = await timed(lambda: own.nearest(embedder.vector().tobytes(), within=EVERY))
    print(f"first search, which fills the index: {took_s:.1f} s; it held the loop for {held_s * 1000:.0f} ms at most")
    print(f"index: {cache.bytes / 1e6:.0f} MB, the process {resident_mb() - before_mb:.0f} MB more")
    await report("over all", own, embedder, EVERY)
    await report("over one part", own, embedder, EVERY[:1])
    for stored in (await own.find(limit=200)).records:
        await own.change(stored, stored.value, vector=embedder.vector().tobytes())
    await report("after 200 changes, which are read again for a minute", own, embedder, EVERY)


def bare(embedder: Embedder) -> None:
    matrix = np.stack([embedder.vector() for _ in range(RECORDS)])
    took, cores_began = list[float](), time.process_time()
    for _ in range(SEARCHES):
        query = embedder.vector()
        began = time.perf_counter()
        scores = matrix @ query
        np.argpartition(scores, RECORDS - 10)[RECORDS - 10 :]
        took.append((time.perf_counter() - began) * 1000)
    cores_ms = (time.process_time() - cores_began) / SEARCHES * 1000
    print(f"a bare product and its ten highest: p50 {median(took):.1f} ms, p95 {percentile(took, 95):.1f} ms;", end=" ")
    print(f"{cores_ms:.1f} ms of the cores")


async def report(title: str, own: OwnRecords[Chunk], embedder: Embedder, within: list[str]) -> None:
    took, held, cores_began = list[float](), list[float](), time.process_time()
    for _ in range(SEARCHES):
        query = embedder.vector().tobytes()
        took_s, held_s = await timed(lambda query=query: own.nearest(query, within=within))  # type: ignore[misc]
        took.append(took_s * 1000)
        held.append(held_s * 1000)
    print(
        f"{title}: p50 {median(took):.1f} ms, p95 {percentile(took, 95):.1f} ms, longest {max(took):.1f} ms;", end=" "
    )
    cores_ms = (time.process_time() - cores_began) / SEARCHES * 1000
    print(f"the loop was held for {percentile(held, 95):.1f} ms (p95); {cores_ms:.1f} ms of the cores")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        path, embedder = Path(name) / "bench.sqlite3", Embedder()
        async with aclosing(await SqliteStore.open(path, timeout_s=10, wall=long_ago)) as store:
            await store.open_application_records()
            await write(store, embedder)
        async with aclosing(await SqliteStore.open(path, timeout_s=10)) as store:
            await measure(store, embedder)
        bare(embedder)


if __name__ == "__main__":
    uvloop.run(main())
