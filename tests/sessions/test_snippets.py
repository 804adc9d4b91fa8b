"""The pieces of texts that a search shows."""

import pytest

from agentic_backend.sessions.reading.snippets import LONGEST, Piece, marked, snippet_of


def text_of(pieces: list[Piece]) -> str:
    return "".join(text for text, _ in pieces)


def hits_of(pieces: list[Piece]) -> list[str]:
    return [text for text, is_hit in pieces if is_hit]


def test_the_words_are_marked_whatever_their_case() -> None:
    assert marked("Ein ÜBERBLICK", ["über"]) == [("Ein ", False), ("ÜBER", True), ("BLICK", False)]
    assert marked("light, Light", ["light"]) == [("light", True), (", ", False), ("Light", True)]
    assert marked("abcd", ["ab", "bc"]) == [("abc", True), ("d", False)]
    assert marked("nothing", ["x"]) == [("nothing", False)]
    assert marked("", ["x"]) == []
    assert marked("as it is", []) == [("as it is", False)]


def test_a_character_that_folds_into_several_is_marked_whole() -> None:
    assert hits_of(marked("Hauptstraße 7", ["strasse"])) == ["straße"]
    assert hits_of(marked("Hauptstraße 7", ["stras"])) == ["straß"]


@pytest.mark.parametrize("before", ["word " * 2_000, "ß" * 9_000, "\n\n" * 500, "é😀 " * 3_000])
@pytest.mark.parametrize("after", [" word" * 2_000, "", "ẞ" * 500])
def test_a_snippet_is_short_and_has_the_first_hit_wherever_it_is(before: str, after: str) -> None:
    pieces = snippet_of(f"{before}Needle{after}", ["nowhere", "needle"])
    assert hits_of(pieces) == ["Needle"]
    assert len(text_of(pieces)) <= LONGEST and "\n" not in text_of(pieces)


def test_what_is_left_out_is_shown() -> None:
    whole = "  short\nneedle  text "
    assert text_of(snippet_of(whole, ["needle"])) == "short needle text"
    cut = text_of(snippet_of("word " * 100 + "needle" + " word" * 100, ["needle"]))
    assert cut.startswith("…word") and cut.endswith("…")


def test_a_text_without_the_words_shows_its_beginning() -> None:
    assert snippet_of("only its title has them", ["x"]) == [("only its title has them", False)]
