"""How long a question takes among many chunks, without models: words, vectors, graph, fusion, and the reads of what is
found.

`python rag_capacity.py [--chunks 50000]`: chunks of 120 words of a made-up language, whose twelve rarest are entities,
with vectors of 384 numbers, in ten collections of one person on SQLite; all are asked, with the graph and without it.
The first question reads the index into memory.
"""

import argparse
import asyncio
import random
import time
from array import array
from collections.abc import Sequence
from statistics import quantiles
from types import SimpleNamespace
from typing import Any

from agentic_backend.application import User
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.graph.entities import key_of
from agentic_backend.applications.retrieval.reading import index_of
from agentic_backend.applications.retrieval.records import SourceFile, StoredChunk
from agentic_backend.applications.retrieval.searching.retriever import Chosen
from agentic_backend.applications.retrieval.shelves import Place, Shelf
from agentic_backend.testing import open_application

BENCH, MODEL, DIMENSIONS = User("bench", "Bench"), "bench", 384
COLLECTIONS, OF_DOCUMENT, QUESTIONS = 10, 100, 300
VOCABULARY = [f"wort{number}" for number in range(20_000)]
PLACES = {word: place for place, word in enumerate(VOCABULARY)}


def vector(chance: random.Random) -> Any:
    return array("f", (chance.gauss(0, 1) for _ in range(DIMENSIONS)))


def text(chance: random.Random, words: int) -> str:
    # As in a language: few words are common.
    return " ".join(VOCABULARY[min(int(chance.paretovariate(0.9)) * 7, 19_999)] for _ in range(words))


async def fill(application: Retrieval, chunks: int) -> list[Any]:
    chance = random.Random(7)
    made = [await application.library.add(BENCH, f"Collection {number}", None) for number in range(COLLECTIONS)]
    shelf = Shelf(application, Place(BENCH.id))
    for first in range(0, chunks, OF_DOCUMENT):
        collection = made[first // OF_DOCUMENT % COLLECTIONS]
        index, key = index_of(collection.key, MODEL), f"{collection.key}.{first}"
        file = SourceFile(
            collection=collection.key, name=f"{first}.md", sha256="", size=1, state="ready", edition=1, next_edition=1
        )
        await shelf.documents.add(file, key)
        writes = []
        for number in range(OF_DOCUMENT):
            words = text(chance, 120)
            rarest = sorted(set(words.split()), key=PLACES.__getitem__)[-12:]
            chunk = StoredChunk(
                index=index,
                document=key,
                edition=1,
                number=number,
                start=number * 1_000,
                end=number * 1_000 + 900,
                path=("A heading",),
                kind="text",
                text=words,
                language="en",
                entities=" ".join(key_of(word) or "" for word in rarest),
            )
            writes.append(shelf.chunks.adding(chunk, f"{key}.{number}", vector=vector(chance)))
        await application.write(writes)
    for each in made:
        await application.library.search_within(each, index_of(each.key, MODEL))
    return [await application.library.get(BENCH, each.key) for each in made]


async def measured(chunks: int) -> None:
    chance = random.Random(8)
    async with open_application(Retrieval, {"embeddings": False}) as opened:
        application = opened.application
        began = time.monotonic()
        collections = await fill(application, chunks)
        print(f"{chunks} chunks stored in {time.monotonic() - began:.0f} s")
        retriever = application.retriever
        application.embedders._built_in = MODEL

        async def embed(texts: Sequence[str], **_: Any) -> Any:
            return SimpleNamespace(vectors=[vector(chance) for _ in texts])

        application.embed = embed  # type: ignore[method-assign,assignment]
        # What was written in the last minute is looked for at each search.
        await asyncio.sleep(65)
        began = time.monotonic()
        await retriever.retrieve(BENCH, text(chance, 8), collections)
        print(f"the first question: {time.monotonic() - began:.1f} s")
        ways = {"without the graph": Chosen(("words", "vectors")), "with it": Chosen()}
        took: dict[str, list[float]] = {name: [] for name in ways}
        used = dict.fromkeys(ways, 0.0)
        for _ in range(QUESTIONS):
            question = text(chance, 8)
            for name, chosen in ways.items():
                began, cpu = time.monotonic(), time.process_time()
                found = await retriever.retrieve(BENCH, question, collections, chosen)
                took[name].append((time.monotonic() - began) * 1000)
                used[name] += time.process_time() - cpu
                assert found.passages and not any(way.failed for way in found.ways.values())
        for name in ways:
            parts, cpu_ms = quantiles(took[name], n=100), used[name] / QUESTIONS * 1000
            print(f"{name}: p50 {parts[49]:.0f} ms, p95 {parts[94]:.0f} ms, {cpu_ms:.0f} ms of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=50_000)
    asyncio.run(measured(parser.parse_args().chunks))


if __name__ == "__main__":
    main()
