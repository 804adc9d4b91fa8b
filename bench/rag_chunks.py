"""How well chunks find the exact spans that answer questions: ours beside other splitters, with the same retriever.

`python rag_chunks.py --data DIR`, where DIR has `questions.csv` and the texts of brandonstarxel/chunking_evaluation
(MIT): a minute. `--minilm DIR` adds vectors: a folder with a model of sentence-transformers (`*.onnx` and
`*tokenizer.json`), which needs onnxruntime and tokenizers. LangChain's splitter is measured where
`langchain-text-splitters` is installed.

The metrics are those of Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval" (Chroma, 2024), of five
chunks for each question: of the spans that answer it the part that is retrieved (recall), of what is retrieved the part
that answers (precision), the same if all chunks with a part of the answer and no others were retrieved (precision Ω).
The even questions choose; the odd ones are held out.
"""

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from agentic_backend.applications.retrieval.chunking.chunks import chunks_of
from agentic_backend.applications.retrieval.chunking.sizes import _PIECE, tokens_in
from agentic_backend.extraction.readers.markdown import read_markdown
from agentic_backend.records.word_index import WordIndex, best
from agentic_backend.records.words import counted_words, sought_words

RETRIEVED = 5
DEEP = 50
"""So many of each way are fused, with this constant of reciprocal ranks."""
CONSTANT = 60

Span = tuple[int, int]


class Question(NamedTuple):
    text: str
    corpus: str
    spans: list[Span]


class Piece(NamedTuple):
    corpus: str
    start: int
    end: int
    text: str


class Figures(NamedTuple):
    recall: float
    precision: float
    retrieved: int
    """Tokens."""


Splitter = Callable[[str], Iterator[tuple[int, int, str]]]
Retriever = Callable[[str, int], list[int]]


def read(folder: Path) -> tuple[dict[str, str], list[Question]]:
    with (folder / "questions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    questions = [
        Question(
            row["question"],
            row["corpus_id"],
            [(each["start_index"], each["end_index"]) for each in json.loads(row["references"])],
        )
        for row in rows
    ]
    names = sorted({question.corpus for question in questions})
    texts = {
        name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in names if (folder / f"{name}.md").exists()
    }
    return texts, [question for question in questions if question.corpus in texts]


# Splitters


def ours(tokens: int, text: str) -> Iterator[tuple[int, int, str]]:
    for chunk in chunks_of(read_markdown(text), tokens=tokens):
        yield chunk.start, chunk.end, chunk.text


def by_tokens(tokens: int, overlap: int, text: str) -> Iterator[tuple[int, int, str]]:
    starts = [*(found.start() for found in _PIECE.finditer(text)), len(text)]
    for first in range(0, len(starts) - 1, tokens - overlap):
        start, end = starts[first], starts[min(first + tokens, len(starts) - 1)]
        yield start, end, text[start:end]


def by_sentences(tokens: int, text: str) -> Iterator[tuple[int, int, str]]:
    """Sentences by a plain rule, as many as fit."""
    ends = [found.end() for found in re.finditer(r"[.!?]\s+|\n+", text)] + [len(text)]
    start, last = 0, 0
    for end in ends:
        if last > start and tokens_in(text[start:end]) > tokens:
            yield start, last, text[start:last]
            start = last
        last = end
    if last > start:
        yield start, last, text[start:last]


def recursive(separators: list[str] | None, tokens: int, overlap: int, text: str) -> Iterator[tuple[int, int, str]]:
    from langchain_text_splitters import RecursiveCharacterTextSplitter  # type: ignore[import-not-found]

    splitter = RecursiveCharacterTextSplitter(
        separators, chunk_size=tokens, chunk_overlap=overlap, length_function=tokens_in
    )
    start = -1
    for made in splitter.split_text(text):
        start = text.index(made, start + 1)
        yield start, start + len(made), made


def splitters(sizes: Sequence[int]) -> Iterator[tuple[str, Splitter]]:
    try:
        import langchain_text_splitters  # noqa: F401

        has_langchain = True
    except ImportError:
        print("without langchain-text-splitters, whose splitter is left out", file=sys.stderr)
        has_langchain = False
    with_sentences = ["\n\n", "\n", ".", "?", "!", " ", ""]
    for size in sizes:
        yield f"ours {size}", partial(ours, size)
        for overlap in (0, size // 2) if has_langchain else ():
            yield f"recursive {size}/{overlap}", partial(recursive, None, size, overlap)
            yield f"recursive with sentences {size}/{overlap}", partial(recursive, with_sentences, size, overlap)
        yield f"sentences {size}", partial(by_sentences, size)
        for overlap in (0, size // 2):
            yield f"tokens {size}/{overlap}", partial(by_tokens, size, overlap)


# Retrievers


def by_words(pieces: Sequence[Piece]) -> Retriever:
    index = WordIndex()
    for piece in pieces:
        index.add(counted_words([piece.text], "en"))

    def retrieve(question: str, limit: int) -> list[int]:
        found = sorted(best([index], sought_words(question), limit), key=lambda each: (-each[0], each[2]))
        return [slot for _, _, slot in found[:limit]]

    return retrieve


class MiniLm:
    """A model of sentence-transformers: the mean of its tokens' vectors."""

    def __init__(self, folder: Path) -> None:
        import numpy
        import onnxruntime  # type: ignore[import-not-found]
        from tokenizers import Tokenizer  # type: ignore[import-not-found]

        self._numpy = numpy
        self._tokenizer = Tokenizer.from_file(str(next(folder.glob("*tokenizer.json"))))
        self._tokenizer.enable_truncation(256)
        self._tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(next(folder.glob("*.onnx"))), options)
        self._known: dict[str, Any] = {}

    def vectors(self, texts: Sequence[str]) -> Any:
        unknown = sorted({text for text in texts if text not in self._known}, key=len)
        for first in range(0, len(unknown), 16):
            batch = unknown[first : first + 16]
            self._known.update(zip(batch, self._embedded(batch), strict=True))
        return self._numpy.stack([self._known[text] for text in texts])

    def _embedded(self, texts: Sequence[str]) -> Any:
        numpy, encoded = self._numpy, self._tokenizer.encode_batch(list(texts))
        mask = numpy.array([each.attention_mask for each in encoded], numpy.int64)
        given = {
            "input_ids": numpy.array([each.ids for each in encoded], numpy.int64),
            "attention_mask": mask,
            "token_type_ids": numpy.zeros_like(mask),
        }
        names = {each.name for each in self._session.get_inputs()}
        hidden = self._session.run(None, {name: value for name, value in given.items() if name in names})[0]
        summed = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return summed / numpy.linalg.norm(summed, axis=1, keepdims=True)


def by_vectors(model: MiniLm, pieces: Sequence[Piece]) -> Retriever:
    vectors = model.vectors([piece.text for piece in pieces])

    def retrieve(question: str, limit: int) -> list[int]:
        scores = vectors @ model.vectors([question])[0]
        return [int(slot) for slot in (-scores).argsort(kind="stable")[:limit]]

    return retrieve


def fused(retrievers: Sequence[Retriever]) -> Retriever:
    def retrieve(question: str, limit: int) -> list[int]:
        scores: dict[int, float] = {}
        for each in retrievers:
            for rank, slot in enumerate(each(question, DEEP), start=1):
                scores[slot] = scores.get(slot, 0.0) + 1 / (CONSTANT + rank)
        return sorted(scores, key=lambda slot: (-scores[slot], slot))[:limit]

    return retrieve


# Metrics


def union(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def length(spans: Sequence[Span]) -> int:
    return sum(end - start for start, end in union(spans))


def common(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    return [
        (max(first, start), min(last, end))
        for first, last in one
        for start, end in other
        if max(first, start) < min(last, end)
    ]


def figures_of(question: Question, retrieved: Sequence[Piece], texts: dict[str, str]) -> Figures:
    own = [(piece.start, piece.end) for piece in retrieved if piece.corpus == question.corpus]
    answered = length(common(own, question.spans))
    taken = sum(piece.end - piece.start for piece in retrieved)
    tokens = sum(tokens_in(texts[piece.corpus][piece.start : piece.end]) for piece in retrieved)
    return Figures(answered / length(question.spans), answered / taken if taken else 0.0, tokens)


def omega(question: Question, pieces: Sequence[Piece]) -> float:
    having = [
        (piece.start, piece.end)
        for piece in pieces
        if piece.corpus == question.corpus and common([(piece.start, piece.end)], question.spans)
    ]
    return length(common(having, question.spans)) / length([*having, *question.spans])


def measure(
    texts: dict[str, str], questions: Sequence[Question], splitter: Splitter, model: MiniLm | None
) -> list[str]:
    pieces = [Piece(name, *each) for name, text in texts.items() for each in splitter(text)]
    sizes = [tokens_in(texts[piece.corpus][piece.start : piece.end]) for piece in pieces]
    retrievers = [by_words(pieces)]
    if model is not None:
        retrievers.append(by_vectors(model, pieces))
        retrievers.append(fused(retrievers[:2]))
    cells = [f"{len(pieces)}", f"{mean(sizes):.0f}"]
    for retriever in retrievers:
        found = [
            figures_of(question, [pieces[slot] for slot in retriever(question.text, RETRIEVED)], texts)
            for question in questions
        ]
        recalls = [100 * each.recall for each in found]
        cells.append(f"{mean(recalls):.1f} ({mean(recalls[::2]):.1f}, {mean(recalls[1::2]):.1f})")
        cells.append(f"{100 * mean(each.precision for each in found):.1f}")
    cells.append(f"{mean(each.retrieved for each in found):.0f}")
    cells.append(f"{100 * mean(omega(question, pieces) for question in questions):.1f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 250, 400, 512, 800])
    parser.add_argument("--only", default="", help="splitters whose name begins with this")
    arguments = parser.parse_args()
    if not (arguments.data / "questions.csv").exists():
        sys.exit(f"no questions.csv in {arguments.data}: nothing is measured")
    texts, questions = read(arguments.data)
    model = MiniLm(arguments.minilm) if arguments.minilm else None
    ways = ["words"] + (["vectors", "fused"] if model else [])
    heads = ["splitter", "chunks", "mean tokens"]
    for way in ways:
        heads += [f"recall by {way} (even, odd)", "precision"]
    print("| " + " | ".join([*heads, "tokens retrieved", "precision Ω"]) + " |")
    print("|" + " --- |" * (len(heads) + 2))
    for name, splitter in splitters(arguments.sizes):
        if name.startswith(arguments.only):
            print("| " + " | ".join([name, *measure(texts, questions, splitter, model)]) + " |", flush=True)


if __name__ == "__main__":
    main()
