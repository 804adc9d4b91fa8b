"""How well questions find their paragraphs: words alone, vectors alone, and both fused, as the application does it.

`python rag_retrieval.py --data DIR`, where DIR has `xquad.en.json` and `xquad.de.json` (google-deepmind/xquad, CC BY-SA
4.0): the paragraphs of one language are a collection, the questions of one are asked. Each way is asked once, and its
rankings are fused as `retriever.py` says, and as `--weights` do. The odd questions are held out: nothing is chosen by
them. nDCG@10, binary; the interval is that of a paired bootstrap of the difference between fused and the better single
way, 95 %.
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
from agentic_backend.applications.retrieval.fusion import fuse
from agentic_backend.applications.retrieval.languages import language_of
from agentic_backend.applications.retrieval.retriever import Hit, weights_of
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
        found.append(Asked(question, words, vectors))
    return found


def ndcg(names: Sequence[str], question: Question) -> float:
    ranked = list(dict.fromkeys(names))[:AT]
    relevant = f"{question.paragraph}.txt"
    return 1 / math.log2(ranked.index(relevant) + 2) if relevant in ranked else 0.0


def fused(each: Asked, names: dict[str, str], weight: Any) -> float:
    hits = {("", hit.record.key): hit for hit in (*each.words, *each.vectors)}
    rankings = {
        "words": [("", hit.record.key) for hit in each.words],
        "vectors": [("", hit.record.key) for hit in each.vectors],
    }
    language = language_of(each.question.text)
    ranked = fuse(rankings, weight(language, hits, rankings))
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
            names = {each.key: each.value.name async for each in opened.application.documents.all_of(collection)}
            found = await asked(opened, collection, questions)
            times = []
            for question in questions[:200]:
                began = time.monotonic()
                await opened.application.retriever.retrieve(BENCH, question.text, [collection])
                times.append((time.monotonic() - began) * 1000)
        for half, some in (("chosen", found[::2]), ("held out", found[1::2])):
            words = [single(each.words, names, each.question) for each in some]
            vectors = [single(each.vectors, names, each.question) for each in some]
            both = [fused(each, names, weights_of) for each in some]
            best = max(words, vectors, key=mean)
            low, high = interval([one - other for one, other in zip(both, best, strict=True)])
            rows.append(
                f"| {asked_in}→{written_in} | {half} | {mean(words):.3f} | {mean(vectors):.3f} | {mean(both):.3f} "
                f"| {low:+.3f} to {high:+.3f} |"
            )
            print(rows[-1], flush=True)
            if grid and half == "chosen":
                for same, unknown, foreign in product((0.5, 0.7, 1.0, 1.5), (0.0, 0.1, 0.3, 1.0), (0.0, 0.05, 0.1)):
                    value = mean(fused(each, names, weighing(same, unknown, foreign)) for each in some)
                    print(f"    same {same}, unknown {unknown}, foreign {foreign}: {value:.4f}")
        p50, p95 = quantiles(times, n=100)[49], quantiles(times, n=100)[94]
        print(f"    read in {seconds:.0f} s; a question takes {p50:.0f} ms, p95 {p95:.0f} ms", flush=True)


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
    print("| asked→written | half | words | vectors | fused | fused less the better, 95 % |\n|---|---|---|---|---|---|")
    asyncio.run(measured(given.data, given.pairs, given.weights, given.questions))


if __name__ == "__main__":
    main()
