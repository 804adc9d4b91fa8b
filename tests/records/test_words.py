"""What becomes of a text: the words by which it is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentic_backend.records.words import LONGEST_QUERY, MOST_WORDS, counted_words, read_words, sought_words


def counts(text: str | None, language: str | None = None) -> dict[str, int]:
    return {word: count for count, words in read_words(counted_words([text], language)) for word in words}


def finds(query: str, text: str, language: str | None) -> bool:
    """Whether each word of the query is one of the text's."""
    known = counts(text, language)
    return all(any(form in known for form in forms) for forms, _ in sought_words(query))


@pytest.mark.parametrize(
    ("query", "text", "language"),
    [
        ("houses", "A HOUSE by the sea", "en"),
        ("running", "He runs", "en"),
        ("Häusern", "ein großes Haus", "de"),
        ("Bücher", "das BUCH", "de-AT"),
        ("maison", "les maisons blanches", "fr"),
        ("généraux", "l’intérêt général", "fr"),
        ("STRASSE", "Straße", "de"),
        ("cafe\u0301", "ein Café", "de"),
        ("ﬁle", "FILE", None),
        ("42", "№ 42.", "en"),
        ("京都", "東京都庁", None),
        ("snake", "snake_case", None),
    ],
)
def test_a_word_is_found_in_its_forms(query: str, text: str, language: str | None) -> None:
    assert finds(query, text, language)


@pytest.mark.parametrize(
    ("query", "text", "language"),
    [
        ("houses", "a house", None),
        ("houses", "a house", "xx"),
        ("house", "a houseboat", "en"),
        ("庁都", "東京都庁", None),
    ],
)
def test_a_word_is_not_found_in_others(query: str, text: str, language: str | None) -> None:
    assert not finds(query, text, language)


def test_the_stems_are_those_of_the_version() -> None:
    # Other ones, such as those of a newer stemmer, need another VERSION, so that stored records get them too.
    assert counts("generously running relational houses skis", "en").keys() == {
        "generous",
        "run",
        "relat",
        "hous",
        "ski",
    }
    assert counts("Aufeinanderfolgende Häuser kategorischer Freundlichkeiten", "de").keys() == {
        "aufeinanderfolg",
        "haus",
        "kategor",
        "freundlich",
    }
    assert counts("continuellement les majestueuses chevaux", "fr").keys() == {"continuel", "le", "majestu", "cheval"}


@given(some.lists(some.none() | some.text()), some.sampled_from(["en", "fr", "de", "", None]))
def test_all_words_are_written_and_read(texts: list[str | None], language: str | None) -> None:
    written = counted_words(texts, language)
    words = [word for _, line in read_words(written) for word in line]
    assert len(words) == len(set(words)) and all(words)
    assert written == counted_words([*texts, None], language)


def test_words_are_counted() -> None:
    assert counts("one two two one one") == {"one": 3, "two": 2}
    assert counts("") == counts(None) == counts("… !") == {} and counted_words([], None) == ""
    assert [count for _, count in sought_words("one two one")] == [2, 1]


def test_what_is_looked_for_is_bounded() -> None:
    assert sought_words(" " * LONGEST_QUERY + "late") == []
    assert len(sought_words(" ".join(f"{n}" for n in range(MOST_WORDS + 1)))) == MOST_WORDS
    assert counts("x" * 100).keys() == {"x" * 64}
