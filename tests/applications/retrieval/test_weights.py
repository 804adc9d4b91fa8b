"""How much words count beside vectors, by the languages of question and document, and the graph beside both."""

from types import SimpleNamespace
from typing import Any

import pytest

from agentic_backend.applications.retrieval.languages import language_of
from agentic_backend.applications.retrieval.searching.fusion import fuse, seated
from agentic_backend.applications.retrieval.searching.retriever import weights_of


def fused(language: str | None, rankings: dict[str, list[Any]], **spoken: str | None) -> list[Any]:
    values = {key: SimpleNamespace(value=SimpleNamespace(language=code)) for key, code in spoken.items()}
    hits: Any = {key: SimpleNamespace(record=value) for key, value in values.items()}
    keyed: Any = rankings
    return [each.item for each in fuse(keyed, weights_of(language, hits, keyed))]


def test_words_of_another_language_change_nothing_of_what_vectors_find() -> None:
    rankings = {"words": ["d", "c"], "vectors": ["a", "b", "c"]}
    assert fused("de", rankings, a="en", b="en", c="en", d="en") == ["a", "b", "c", "d"]
    assert fused("en", rankings, a="en", b="en", c="en", d="en")[0] == "c"


def test_without_vectors_words_count_whatever_the_language() -> None:
    rankings: dict[str, list[Any]] = {"words": ["a", "b", "c"], "vectors": []}
    assert fused("de", rankings, a="en", b="de", c=None) == ["a", "b", "c"]


def test_the_graph_changes_nothing_of_what_others_find_and_adds_behind_them() -> None:
    rankings: dict[str, list[Any]] = {"words": ["a", "b", "c"], "vectors": ["b", "a", "c"], "graph": ["d", "c", "b"]}
    assert fused("en", rankings, a="en", b="en", c="en", d="de") == ["a", "b", "c", "d"]


def test_the_best_of_a_ranking_that_is_not_among_the_first_has_a_seat() -> None:
    found = fuse({"words": ["a", "b", "c", "d", "e"]})
    assert [each.item for each in seated(found, ["b", "e", "d"], 3)] == ["a", "b", "e", "c", "d"]
    assert seated(found, ["b", "a", "c"], 4) == seated(found, [], 4) == seated(found[:2], ["a"], 4) + found[2:] == found


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What is covered?", "en"),
        ("Welchen Schutz habe ich?", "de"),
        ("Wogegen protestieren manche Leute?", "de"),
        ("Quels dégâts sont couverts ?", "fr"),
        ("Überschwemmung", "de"),
        ("XR-500", None),
        ("¿Qué daños están cubiertos?", None),
        ("", None),
    ],
)
def test_the_language_of_short_questions_is_told(text: str, language: str | None) -> None:
    assert language_of(text) == language
