"""The labelled sentences on which the judge is measured: read, and split into the half for tuning and the other."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    text: str
    passages: Mapping[int, str]
    """By number, from 1."""
    supported: bool
    kind: str
    language: str
    across: bool
    """Is the sentence in another language than its passages?"""
    held_out: bool
    """Not of the half that the judge's rules and thresholds were made with."""


FILES = ("judged_sentences.yaml", "tuning_sentences.yaml", "more_sentences.yaml")
"""The first one alone has sentences that are held out, and the last one is on its passages."""


def labelled_sentences(files: Sequence[str] = FILES) -> list[LabelledSentence]:
    return [sentence for file in files for sentence in _labelled(file)]


def _labelled(file: str) -> list[LabelledSentence]:
    read = _read(file)
    passages = (read if "passages" in read else _read(FILES[0]))["passages"]
    return [
        LabelledSentence(
            row["text"],
            {number: passages[name] for number, name in enumerate(row["of"], 1)},
            supported=label == "supported",
            kind=row["kind"],
            language=row["language"],
            across=row.get("across", False),
            held_out=file == FILES[0] and hashlib.sha256(row["text"].encode()).digest()[0] % 2 == 1,
        )
        for label in ("supported", "unsupported")
        for row in read[label]
    ]


@cache
def _read(file: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return read
