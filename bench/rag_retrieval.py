"""How well questions find their paragraphs: words, vectors and graph alone, and fused, as the application does it.

`python rag_retrieval.py --data DIR`, where DIR has `xquad.en.json` and `xquad.de.json` (google-deepmind/xquad, CC BY-SA
4.0): the paragraphs of one language are a collection, the questions of one are asked. Each way is asked once, and its
rankings are fused as `retriever.py` says, without the graph and with it, and as `--weights` do. The odd questions are
held out: nothing is chosen by them. nDCG@10, binary; the interval is that of a paired bootstrap of the difference
between all ways fused and the best single one, 95 %.
"""

import argparse
import asyncio
import json
import math
import random
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean, quantiles
from typing import Any, NamedTuple

from agentic_backend.application import User
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.languages import language_of
from agentic_backend.applications.retrieval.records import OF_USERS
from agentic_backend.applications.retrieval.searching.fusion import fuse, seated
from agentic_backend.applications.retrieval.searching.retriever import SEAT, Chosen, Hit, weights_of
from agentic_backend.testing import OpenedApplication, open_application

DEPTH, AT = 40, 10
BENCH = User("bench", "Bench")
PAIRS = (("en", "en"), ("de", "de"), ("de", "en"), ("en", "de"))
"""The languages of the questions and of the paragraphs."""


class Question(NamedTuple):
    text: str
    paragraph: int


class Asked(NamedTuple):
    question: Question
    words: Sequence[Hit]
    vectors: Sequence[Hit]
    graph: Sequence[Hit]


def read(file: Path) -> tuple[list[str], list[Question]]:
    """The paragraphs and the questions."""
    paragraphs: list[str] = []
    questions: list[Question] = []
    for article in json.loads(file.read_text())["data"]:
        for paragraph in article["paragraphs"]:
            questions += [Question(each["question"], len(paragraphs)) for each in paragraph["qas"]]
            paragraphs.append(paragraph["context"])
    return paragraphs, questions


async def filled(opened: OpenedApplication[Retrieval], paragraphs: Sequence[str]) -> tuple[Any, float]:
    """A collection of the paragraphs, and the seconds that it took to read them."""
    library = opened.application.library
    collection = await library.add(BENCH, "Paragraphs", None)
    began = time.monotonic()
    async with opened.client(BENCH.id) as client:
        path = f"/collections/{collection.key}/documents"
        for number, text in enumerate(paragraphs):
            await client.post(path, files={"file": (f"{number}.txt", text.encode())})
        cursor: str | None = None
        while True:
            page = (await client.get(path, params={"limit": 200, **({"cursor": cursor} if cursor else {})})).json()
            if any(each["state"] not in ("ready", "failed") for each in page["documents"]):
                await asyncio.sleep(0.2)
            elif (cursor := page["next_cursor"]) is None:
                break
    return await library.get(BENCH, collection.key), time.monotonic() - began


async def asked(opened: OpenedApplication[Retrieval], collection: Any, questions: Sequence[Question]) -> list[Asked]:
    retriever = opened.application.retriever
    found = []
    for question in questions:
        words = await retriever._by_words(question.text, [collection], DEPTH)
        vectors = [
            hit
            for embedder in retriever.embedders_of([collection])
            for hit in await retriever._by_vectors(BENCH, question.text, [collection], DEPTH, embedder)
        ]
        graph = await retriever._by_graph(question.text, [collection], DEPTH)
        found.append(Asked(question, words, vectors, graph))
    return found


def ndcg(names: Sequence[str], question: Question) -> float:
    ranked = list(dict.fromkeys(names))[:AT]
    relevant = f"{question.paragraph}.txt"
    return 1 / math.log2(ranked.index(relevant) + 2) if relevant in ranked else 0.0


def fused(each: Asked, names: dict[str, str], weight: Any, ways: Sequence[str] = ("words", "vectors")) -> float:
    found = {way: getattr(each, way) for way in ways}
    hits = {("", hit.record.key): hit for some in found.values() for hit in some}
    rankings = {way: [("", hit.record.key) for hit in some] for way, some in found.items()}
    language = language_of(each.question.text)
    ranked = seated(fuse(rankings, weight(language, hits, rankings)), rankings.get("graph", ()), SEAT)
    return ndcg([names[hits[one.item].record.value.document] for one in ranked], each.question)


def single(hits: Sequence[Hit], names: dict[str, str], question: Question) -> float:
    return ndcg([names[hit.record.value.document] for hit in hits], question)


def weighing(same: float, unknown: float, foreign: float) -> Any:
    def weights(language: str | None, hits: Any, rankings: Any) -> Any:
        def weight(way: str, key: Any) -> float:
            spoken = hits[key].record.value.language
            if way != "words":
                return 1.0
            return foreign if language != spoken else unknown if language is None else same

        return weight

    return weights


def interval(differences: Sequence[float]) -> tuple[float, float]:
    chance = random.Random(7)
    means = sorted(mean(chance.choices(differences, k=len(differences))) for _ in range(1000))
    return means[25], means[974]


async def measured(data: Path, pairs: Sequence[str], grid: bool, most: int | None) -> None:
    rows = []
    for asked_in, written_in in (pair.split("-") for pair in pairs):
        paragraphs, _ = read(data / f"xquad.{written_in}.json")
        questions = read(data / f"xquad.{asked_in}.json")[1][:most]
        async with open_application(Retrieval) as opened:
            collection, seconds = await filled(opened, paragraphs)
            own = opened.application.records_of(OF_USERS.documents).of_user(BENCH.id)
            names = {each.key: each.value.name async for each in own.each("of_collection", collection.key)}
            found = await asked(opened, collection, questions)
            ways = {"without the graph": Chosen(("words", "vectors")), "with it": Chosen()}
            times: dict[str, list[float]] = {name: [] for name in ways}
            for question in questions[:200]:
                for name, chosen in ways.items():
                    began = time.monotonic()
                    await opened.application.retriever.retrieve(BENCH, question.text, [collection], chosen)
                    times[name].append((time.monotonic() - began) * 1000)
        for half, some in (("chosen", found[::2]), ("held out", found[1::2])):
            words = [single(each.words, names, each.question) for each in some]
            vectors = [single(each.vectors, names, each.question) for each in some]
            graph = [single(each.graph, names, each.question) for each in some]
            both = [fused(each, names, weights_of) for each in some]
            every = [fused(each, names, weights_of, ("words", "vectors", "graph")) for each in some]
            best = max(words, vectors, graph, key=mean)
            low, high = interval([one - other for one, other in zip(every, best, strict=True)])
            cells = " | ".join(f"{mean(each):.4f}" for each in (words, vectors, graph, both, every))
            rows.append(f"| {asked_in}→{written_in} | {half} | {cells} | {low:+.3f} to {high:+.3f} |")
            print(rows[-1], flush=True)
            if grid and half == "chosen":
                for same, unknown, foreign in product((0.5, 0.7, 1.0, 1.5), (0.0, 0.1, 0.3, 1.0), (0.0, 0.05, 0.1)):
                    value = mean(fused(each, names, weighing(same, unknown, foreign)) for each in some)
                    print(f"    same {same}, unknown {unknown}, foreign {foreign}: {value:.4f}")
        print(f"    read in {seconds:.0f} s")
        for name, some in times.items():
            print(
                f"    {name}: p50 {quantiles(some, n=100)[49]:.1f} ms, p95 {quantiles(some, n=100)[94]:.1f} ms",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", action="store_true", help="tell what other weights would give on the chosen half")
    parser.add_argument(
        "--pairs", nargs="*", default=[*map("-".join, PAIRS)], help="languages of questions and paragraphs"
    )
    parser.add_argument("--questions", type=int, help="so many at most")
    given = parser.parse_args()
    if not (given.data / "xquad.en.json").is_file():
        parser.error(f"{given.data} has no xquad.en.json")
    print("| asked→written | half | words | vectors | graph | without graph | fused | fused less the best, 95 % |")
    print("|---|---|---|---|---|---|---|---|")
    asyncio.run(measured(given.data, given.pairs, given.weights, given.questions))


if __name__ == "__main__":
    main()
