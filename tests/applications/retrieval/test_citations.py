import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.applications.retrieval.judging.citations import (
    HELD_BACK,
    CheckedAnswer,
    CitationFilter,
    check_citations,
)

KNOWN = {1, 2, 3}
SOURCES = ["See https://handbook.example.org/leave for more (or www.example.org)."]


def checked(text: str) -> CheckedAnswer:
    return check_citations(text, KNOWN, SOURCES)


@pytest.mark.parametrize(
    ("written", "shown", "cited"),
    [
        ("It is so [1].", "It is so [1].", (1,)),
        ("It is so[1].", "It is so[1].", (1,)),
        ("It is so [2][1].", "It is so [2][1].", (2, 1)),
        ("It is so [1,2].", "It is so [1][2].", (1, 2)),
        ("It is so [1; 3].", "It is so [1][3].", (1, 3)),
        ("It is so [1-3].", "It is so [1][2][3].", (1, 2, 3)),
        ("It is so [1–2].", "It is so [1][2].", (1, 2)),
        ("It is so [^1].", "It is so [1].", (1,)),
        ("It is so 【1†source】.", "It is so [1].", (1,)),
        ("It is so 【2:0†handbook.pdf】.", "It is so [2].", (2,)),
        ("It is so\uff3b1\uff3d.", "It is so[1].", (1,)),
        ("It is so (source 1).", "It is so [1].", (1,)),
        ("Es ist so (siehe Quelle 2).", "Es ist so [2].", (2,)),
        ("It is so (sources 1 and 2).", "It is so [1][2].", (1, 2)),
        ("It is so [Doc 1].", "It is so [1].", (1,)),
        ("It is so [Source 1, Source 3].", "It is so [1][3].", (1, 3)),
    ],
)
def test_each_form_of_a_citation_becomes_one(written: str, shown: str, cited: tuple[int, ...]) -> None:
    assert checked(written) == CheckedAnswer(shown, cited, 0, 0)


@pytest.mark.parametrize(
    ("written", "shown", "unknown"),
    [
        ("It is so [7].", "It is so.", 1),
        ("It is so [1, 7].", "It is so [1].", 1),
        ("It is so [7][8] here.", "It is so here.", 2),
        ("It is so [2-5].", "It is so [2][3].", 2),
        ("It is so 【9†source】.", "It is so.", 1),
        ("It is so (source 9).", "It is so.", 1),
    ],
)
def test_citations_of_unknown_passages_are_removed_and_counted(written: str, shown: str, unknown: int) -> None:
    found = checked(written)
    assert (found.text, found.unknown, found.links) == (shown, unknown, 0)


@pytest.mark.parametrize(
    "text",
    [
        "The element a[1] and x[7] of it.",
        "See row_ids[7] there.",
        "As of [2024], the interval [0, 1] holds.",
        "[TODO] write [more] of [it].",
        "In `a[9] = [x](http://evil.example)` nothing is cited.",
        "```python\nrows[9]  # [9] http://evil.example\n```\nAnd on.",
        "~~~\n[9]\n~~~\n",
        "(see the source of it) (2 of 3) (sourced)",
        "5 < 7, a <b>bold</b> word, 3 * (4 + 5)",
        "A line\\[9\\] with escapes.",
    ],
)
def test_what_is_no_citation_stays(text: str) -> None:
    assert checked(text) == CheckedAnswer(text, (), 0, 0)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("It is [so](http://evil.example/a).", "It is so."),
        ("It is so [1](http://evil.example).", "It is so [1]."),
        ("![a picture](https://evil.example/a.png?q=secret) here", "a picture here"),
        ("Go to https://evil.example/x?y=z, please.", "Go to , please."),
        ("Go to <https://evil.example>.", "Go to ."),
        ('Go <a href="https://evil.example">there</a>.', "Go there."),
        ('<img src="//evil.example/a.png">Well', "Well"),
        ("Go [there](/logout) now", "Go there now"),
        ("Go to https://handbook.example.org/leave?q=secret now", "Go to now"),
    ],
)
def test_links_that_the_model_makes_up_are_removed_and_counted(written: str, shown: str) -> None:
    found = checked(written)
    assert (re.sub(" +", " ", found.text), found.links) == (shown, 1)


@pytest.mark.parametrize(
    "text",
    [
        "See https://handbook.example.org/leave.",
        "See [the handbook](https://handbook.example.org/leave).",
        "See <https://handbook.example.org/leave> (www.example.org).",
    ],
)
def test_addresses_of_the_passages_stay(text: str) -> None:
    assert checked(text) == CheckedAnswer(text, (), 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "[a\nb](/evil)",
        "[a [b](/evil)](/evil)",
        "[1]: /evil\n\nSo [1].",
        "> [a]: /evil\n\n[a]",
        "[a]【9】(/evil)",
        "[a]<img src=x>(/evil)",
        "[a](/evil",
        "ht[9]tp://evil.example",
        "ht<a>tp://evil.example",
        "ht[tp://evil.example](/evil)",
        "``[a](/evil)`",
        "`a\n- [a](/evil)`",
        "| `a | [a](/evil)` |",
        "- ```\n  a\n  ```\n  [a](/evil)",
        "- b\n  ```\n[a](/evil)",
        "b\n    ```\n    [a](/evil)",
        "```\n    ```\n```\n[a](/evil)",
        "``` a ` b\n[a](/evil)",
        "<div>\n```\n\n[a](/evil)",
    ],
)
def test_no_form_of_a_link_gets_through(text: str) -> None:
    # Neither an inline link, nor a definition, nor an address that is made a link.
    assert not re.search(r"\]\(|^[ >]*\[[^\]]*\]:|https?://", checked(text).text, re.M)


def test_a_comment_hides_no_mark_of_code() -> None:
    # Read as HTML it would end before the link, which is within code here.
    assert checked("<!-- ` --> [a](/evil) `").text.startswith("\\<!--")


PIECES = st.sampled_from(
    [
        *"[]()`~<>!\\:|#^ \n1279aw",
        "[1]",
        "[9]",
        " [1, 9]",
        "](",
        "```",
        "\n```\n",
        "  ```\n",
        "- ",
        "http://evil.example/a",
        "https://handbook.example.org/leave",
        "www.",
        "<a href='x'>",
        "【1†source】",
        "(source 2)",
        "(see ",
        "[text](http://x)",
        "text",
        " " * 12,
        "é",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.lists(st.integers(1, 12), min_size=1, max_size=12))
def test_in_whatever_pieces_it_streams_it_is_the_same(text: str, lengths: list[int]) -> None:
    checking = CitationFilter(KNOWN, SOURCES)
    shown, at, turn = "", 0, 0
    while at < len(text):
        length = lengths[turn % len(lengths)]
        shown += checking.feed(text[at : at + length])
        at, turn = at + length, turn + 1
    shown += checking.finish()
    assert CheckedAnswer(shown, checking.cited, checking.unknown, checking.links) == checked(text)


@pytest.mark.parametrize("text", ["[" + "a" * 9_000, "`" + "a" * 9_000, "http://" + "a" * 9_000, "[a](" + "b" * 9_000])
def test_what_never_ends_is_not_held_back_for_ever(text: str) -> None:
    checking = CitationFilter(KNOWN)
    begun = sum(len(checking.feed(letter)) for letter in text)
    assert begun + len(checking.finish()) == len(checked(text).text)
    # What never gets an end is shown, but for what may still begin something; an address is not shown at all.
    assert begun == 0 if text.startswith("http") else begun >= len(text) - HELD_BACK - 2


def test_plain_words_are_shown_at_once() -> None:
    checking = CitationFilter(KNOWN)
    assert checking.feed("It is so. It") == "It is so. It"
