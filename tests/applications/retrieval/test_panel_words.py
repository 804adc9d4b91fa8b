"""The words of the panel `documents.html`, which has them in its own file."""

import re
from pathlib import Path

import pytest

from agentic_backend.applications.retrieval import application

FOLDER = Path(application.__file__).parent
_TEXT = r'"((?:[^"\\]|\\.)*)"'


@pytest.mark.parametrize("language", ["de", "fr"])
def test_each_text_is_translated_with_its_places(language: str) -> None:
    words, code = (FOLDER / "documents.html").read_text().split('let locale = "en"', 1)
    table = words.split(f" {language}: {{", 1)[1].split("\n        },", 1)[0]
    pairs = {a or b: c for a, b, c in re.findall(rf"^          (?:{_TEXT}|(\w+)):\s*{_TEXT},$", table, re.MULTILINE)}
    used = set(re.findall(rf"\bt\(\s*{_TEXT}", code)) | set(re.findall(rf"\bwords: {_TEXT}", code))
    for both in re.findall(rf"\bplural\([^,]+,\s*{_TEXT},\s*{_TEXT}", code):
        used.update(both)
    for name in ("WAYS", "MODES", "STATES", "REASONS", "FAILURES", "REFUSALS"):
        used.update(re.findall(rf": {_TEXT}", code.split(f"const {name} = {{", 1)[1].split("};", 1)[0]))
    # What the server says of a way of searching, or a model, that has failed.
    for file in ("searching/retriever.py", "answering/pipeline.py"):
        used.update(re.findall(r'"(It [^"]+)"', (FOLDER / file).read_text()))
    assert len(used) > 100
    assert pairs.keys() == used
    places = {text: sorted(re.findall(r"\{\w+\}", text)) for text in used}
    assert {text: sorted(re.findall(r"\{\w+\}", said)) for text, said in pairs.items()} == places
