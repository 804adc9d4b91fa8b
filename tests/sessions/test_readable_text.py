"""Markdown as a line of a list shows it."""

import pytest

from agentic_backend.sessions.reading.readable_text import readable
from agentic_backend.sessions.reading.snippets import LONGEST, snippet_of

CASES = {
    "heading": ("## The answer ##", "The answer"),
    "bold, italic and struck": ("**Bold**, *it*, _low_, __all__ and ~~gone~~", "Bold, it, low, all and gone"),
    "nested": ("**bold *and* `code`**", "bold and code"),
    "code": ("Use `**kwargs` or ``a_b``", "Use **kwargs or a_b"),
    "link": ("See [the *docs*](https://x.org/a_(b)) now", "See the docs now"),
    "image": ("![A cat](https://x.org/cat.png) sits", "A cat sits"),
    "address": ("<https://x.org/a_b_c>", "https://x.org/a_b_c"),
    "footnote": ("So it is[^1] [2]", "So it is [2]"),
    "escaped": (r"5 \* 3 \_ 2", "5 * 3 _ 2"),
    "lists": ("- one\n  * two\n- [x] three\n1. four", "one\ntwo\nthree\n1. four"),
    "quote": ("> ## said\n> so", "said\nso"),
    "table": ("| City | Sun |\n|---|:-:|\n| **Bern** | `yes` |", "City · Sun\nBern · yes"),
    "rules": ("Title\n=====\n\n---\nrest", "Title\nrest"),
    "fence": ("```python\n# no *heading*\n```\n# one", "# no *heading*\none"),
    "no marks": ("2 * 3 * 4 = x_y_z, a[1], C# and 1 < 2 > 1", "2 * 3 * 4 = x_y_z, a[1], C# and 1 < 2 > 1"),
    "unclosed": ("**open and `so [on](", "**open and `so [on]("),
}


@pytest.mark.parametrize(("markdown", "plain"), CASES.values(), ids=CASES)
def test_the_words_are_left(markdown: str, plain: str) -> None:
    assert readable(markdown, ["absent"], 0) == plain


@pytest.mark.parametrize(
    ("markdown", "word", "line"),
    [
        ("[here](https://x.org/needle)", "needle", "[here](https://x.org/needle)"),
        ("a**b** *c*", "a**b", "a**b** *c*"),
        ("```Needle\n*x*\n```", "needle", "```Needle\n*x*"),
        ("[needle](https://x.org/needle) *x*", "needle", "needle x"),
    ],
)
def test_a_mark_that_was_searched_for_stays(markdown: str, word: str, line: str) -> None:
    assert readable(markdown, [word], 0) == line
    assert any(is_hit and text.casefold() == word for text, is_hit in snippet_of(markdown, [word], is_markdown=True))


def test_a_block_of_code_is_known_by_its_distant_beginning() -> None:
    before = "```\n" + "x = 1\n" * 1_000
    assert "# *needle*" in readable(f"{before}# *needle*\n```", ["needle"], len(before))
    assert "\nneedle" in readable(f"{before}```\n# *needle*", ["needle"], len(before) + 4)


@pytest.mark.parametrize("mark", ["*a ", "_a ", "[", "](", "`", "**", "~~a ", "> ", "|", "[a](b", "<https://", "\\"])
def test_a_long_line_of_marks_is_cut_around_the_hit(mark: str) -> None:
    hostile = mark * 100_000
    pieces = snippet_of(f"{hostile}needle{hostile}", ["needle"], is_markdown=True)
    assert [text for text, is_hit in pieces if is_hit] == ["needle"]
    shown = "".join(text for text, _ in pieces)
    assert shown.startswith("…") and shown.endswith("…") and len(shown) <= LONGEST


def test_what_a_person_wrote_is_shown_as_it_is() -> None:
    assert snippet_of("**needle** [x](y)", ["x"]) == [("**needle** [", False), ("x", True), ("](y)", False)]
