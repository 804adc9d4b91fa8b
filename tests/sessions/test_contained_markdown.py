"""Foreign texts in a Markdown document: none leaves its place, and code is kept. A CommonMark parser is the judge."""

import pytest
from hostile.sizes import sized
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentic_backend.sessions.reading.contained_markdown import contained, one_line
from agentic_backend.text.fenced_code import fenced

MARKDOWN = MarkdownIt("commonmark").enable("table")
END = "\n\n## The end\n\nof it"
PIECES = st.sampled_from(
    [
        *("```", "````", "~~~", "`", "``", "\\", "\\`", "|", "| a | b |\n|---|---|\n", "<!--", "<div>", "</details>"),
        *("<?", "<a href='`'>", "\n", "\n\n", "\r", "- ", "1. ", "> ", "  ", "    ", "\t", "a", "x < y", "[a]: /b"),
        *("---", "# ", "<https://a.b>", " js", "\n```\n", "\n~~~\n", "\n  ```\n", "![", "](", "$", "*", "\x00"),
    ]
)

OUTSIDE = ["heading_open", "heading_close", "paragraph_open", "paragraph_close"]


def kinds(text: str) -> list[str]:
    """The types of all tokens of the document, also those within a line."""
    return [each.type for token in MARKDOWN.parse(text) for each in [token, *(token.children or [])]]


@settings(max_examples=sized(500, 2_000), deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
@example("```\nnever closed")
@example("- a\n  ```\n<!-- ")
@example("- ```\n  ```\n<!-- ")
@example("| a ` | <!-- ` |\n|---|---|\n| b | c |")
@example("`\n` <!-- `")
@example("\\``<!--`")
@example("para\n    ```\n    <!--")
@example("~~~\n```\n<!--")
@example("```\\| a | b |\n|---|---|\n")
def test_no_text_leaves_its_place_or_brings_markup(text: str) -> None:
    shown = contained(text)
    assert not {"html_block", "html_inline"} & set(kinds(shown + END))
    following = [token for token in MARKDOWN.parse(shown + END) if token.level == 0][-4:]
    assert [token.type for token in following] == OUTSIDE
    assert [token.content for token in MARKDOWN.parse(shown + END) if token.type == "inline"][-2:] == [
        "The end",
        "of it",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Use `<details>` and ``a ` <b>``.",
        "```html\n<div>\n<!-- x -->\n```\nand so on",
        "1. Install:\n   ```bash\n   make <target>\n   ```\n2. Run it.",
        "~~~\n<a>\n~~~",
        "a < b, a <= b, 1<2",
        "| a | b |\n|---|---|\n| `x` | y |",
        "**bold** _it_ [a](https://b.c) # no\n\n- one\n- two",
    ],
)
def test_what_is_well_formed_stays_as_it_is(text: str) -> None:
    assert contained(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b> c", "a &lt;b> c"),
        ("```js\nlet a", "```js\nlet a\n```"),
        ("  ~~~~\n  a", "  ~~~~\n  a\n  ~~~~"),
        ("- ```\n  <b>", "````markdown\n- ```\n  <b>\n````"),
    ],
)
def test_what_is_not_is_mended(text: str, shown: str) -> None:
    assert contained(text) == shown


@settings(deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=8))
def test_code_stays_behind_its_fence(text: str, language: str) -> None:
    tokens = MARKDOWN.parse(fenced(text, language) + END)
    kept = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")
    assert (tokens[0].type, tokens[0].content) == ("fence", kept + "\n")
    assert len(tokens) == 7


@settings(deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_a_title_is_one_line_without_markup(text: str) -> None:
    tokens = MARKDOWN.parse(f"# {one_line(text)}{END}")
    assert [token.type for token in tokens][:3] == ["heading_open", "inline", "heading_close"] and len(tokens) == 9
    assert {child.type for child in tokens[1].children or []} <= {"text", "text_special"}


def test_a_long_text_is_contained_in_linear_time() -> None:
    # Each run of backticks has another length, and each line another fence.
    text = " ".join("`" * n for n in range(1, 1_400)) + "\n" + "`a` <b> " * 100_000 + "\n".join(["x <y>"] * 100_000)
    assert len(contained(text)) >= len(text)
