"""The labelled sentences on which the judge is measured: read, and split into the half for tuning and the other."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
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


FILES = ("judged_sentences.yaml", "tuning_sentences.yaml")


def labelled_sentences() -> list[LabelledSentence]:
    return [sentence for file in FILES for sentence in _read(file)]


def _read(file: str) -> list[LabelledSentence]:
    read: dict[str, Any] = yaml.safe_load(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return [
        LabelledSentence(
            row["text"],
            {number: read["passages"][name] for number, name in enumerate(row["of"], 1)},
            supported=label == "supported",
            kind=row["kind"],
            language=row["language"],
            across=row.get("across", False),
            held_out=file == FILES[0] and hashlib.sha256(row["text"].encode()).digest()[0] % 2 == 1,
        )
        for label in ("supported", "unsupported")
        for row in read[label]
    ]
