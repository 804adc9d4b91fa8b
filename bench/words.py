"""What a search of an application's records by their words costs: 50,000 records of some 120 words in SQLite.

`python words.py`: two minutes, most of them to write the records. The texts are generated with the frequencies that
words have in texts (Zipf's law); queries are of one to ten such words.
"""

import random
import tempfile
import time
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

import uvloop
from figures import median, percentile
from held_loop import timed

from agentic_backend.records.kinds import Kind, Record, Words
from agentic_backend.records.layout import Layout
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.record_search import RecordSearch
from agentic_backend.records.records import OwnRecords, Records
from agentic_backend.stores.sqlite import SqliteStore

RECORDS, WORDS, VOCABULARY, SEARCHES, AT_ONCE = 50_000, 120, 60_000, 300, 100


class Page(Record):
    text: str
    language: str = "en"


PAGES = Kind("page", Page, owner="application", words=Words("text", language="language"), most=100_000)


class Texts:
    """Texts of invented words, the same at each run."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._words = [self._word(number) for number in range(VOCABULARY)]
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def text(self, length: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=length))

    def record(self) -> Page:
        return Page(text=self.text(self._random.randint(WORDS * 2 // 3, WORDS * 4 // 3)))

    def query(self) -> str:
        return self.text(self._random.randint(1, 10))

    def _word(self, number: int) -> str:
        syllables = "ba ce di fo gu la me ni ro su ta ve".split()
        word = syllables[number % 12]
        while number := number // 12:
            word += syllables[number % 12]
        return word + self._random.choice(["n", "r", "ing", "s", "ed"])


def long_ago() -> datetime:
    """So that a search does not look again at what has just been written."""
    return datetime.now(UTC) - timedelta(minutes=10)


async def write(store: SqliteStore, texts: Texts) -> None:
    records = Records(store, [Layout("bench", PAGES)])
    own = records.of(PAGES).of_application()
    began = time.perf_counter()
    for _ in range(RECORDS // AT_ONCE):
        await records.write([own.adding(texts.record()) for _ in range(AT_ONCE)])
    print(f"{RECORDS:,} records of {WORDS} words written in {time.perf_counter() - began:.0f} s")


async def measure(store: SqliteStore, texts: Texts) -> None:
    cache = PartitionCache()
    own = Records(store, [Layout("bench", PAGES)], RecordSearch(store, cache)).of(PAGES).of_application()
    took_s, held_s = await timed(lambda: own.search(texts.query()))
    print(f"first search, which fills the index: {took_s:.1f} s; it held the loop for {held_s * 1000:.0f} ms at most")
    print(f"index: {cache.bytes / 1e6:.0f} MB")
    await report("searches", own, texts)
    for stored in (await own.find(limit=200)).records:
        await own.change(stored, texts.record())
    await report("after 200 changes, which are read again for a minute", own, texts)


async def report(title: str, own: OwnRecords[Page], texts: Texts) -> None:
    took, held = [], []
    for _ in range(SEARCHES):
        query = texts.query()
        took_s, held_s = await timed(lambda query=query: own.search(query))  # type: ignore[misc]
        took.append(took_s * 1000)
        held.append(held_s * 1000)
    print(
        f"{title}: p50 {median(took):.1f} ms, p95 {percentile(took, 95):.1f} ms, longest {max(took):.1f} ms;", end=" "
    )
    print(f"the loop was held for {percentile(held, 95):.1f} ms (p95)")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        path, texts = Path(name) / "bench.sqlite3", Texts()
        async with aclosing(await SqliteStore.open(path, timeout_s=10, wall=long_ago)) as store:
            await store.open_application_records()
            await write(store, texts)
        async with aclosing(await SqliteStore.open(path, timeout_s=10)) as store:
            await measure(store, texts)


if __name__ == "__main__":
    uvloop.run(main())
