"""How documents are cut into chunks: what holds of any document, and what each kind of block needs."""

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_backend.applications.retrieval.chunking.chunks import Chunk, chunks_of
from agentic_backend.applications.retrieval.chunking.sentences import sentence_starts
from agentic_backend.applications.retrieval.chunking.sizes import MOST_CHARACTERS, tokens_in
from agentic_backend.extraction.document import Block, Document, table_text
from agentic_backend.extraction.readers.delimited import read_delimited
from agentic_backend.extraction.readers.html import read_html
from agentic_backend.extraction.readers.markdown import read_markdown
from agentic_backend.extraction.readers.plain import read_code, read_text

MOST = 40

# Documents as people have them, and worse.

_word = st.sampled_from(
    "Haus Meer z. B. Dr. Dupont 3. Oktober 1,5 e.g. the ends. Why? « Bonjour. » 日本語の文章です。 한국어 naïve "
    "e\u0301\u0301 👩\u200d👩\u200d👧 snake_case x=1; https://example.com/a?b=c | \\| # ``` *** --- -".split()
)
_line = st.one_of(st.lists(_word, max_size=60).map(" ".join), st.text(max_size=80), st.just("x" * 700))
_row = st.lists(st.lists(_word, max_size=12).map(" ".join), min_size=1, max_size=30)


def _a_table(rows: list[list[str]]) -> str:
    return "Table 1: Houses by the sea.\n\n" + table_text(rows)


_markdown_part = st.one_of(
    st.tuples(st.integers(1, 6), _line).map(lambda made: "#" * made[0] + " " + made[1]),
    st.lists(_line, max_size=4).map("\n".join),
    st.lists(_line, max_size=6).map(lambda lines: "\n".join(f"- {line}" for line in lines)),
    st.lists(_row, min_size=1, max_size=12).map(_a_table),
    st.lists(_line, max_size=12).map(lambda lines: "```python\n" + "\n    ".join(lines) + "\n```"),
    st.sampled_from(["***", " " * 300, "\n" * 200]),
)
_markdown = st.lists(_markdown_part, max_size=12).map("\n\n".join)
_code_line = st.sampled_from(
    [
        "def f(x):",
        "    return x",
        "",
        "class A:",
        "    # what it does",
        "    @cached",
        "    def g(self):",
        "x" * 400,
        "}",
    ]
)
DOCUMENTS = st.one_of(
    _markdown.map(read_markdown),
    st.lists(_line, max_size=20).map("\n".join).map(read_text),
    st.lists(_code_line, max_size=60).map("\n".join).map(lambda text: read_code(text, "python")),
    st.lists(_row, min_size=1, max_size=12).map(
        lambda rows: read_delimited("name;size\n" + "\n".join(";".join(row).replace("\n", " ") for row in rows), 10**6)
    ),
)


def span(document: Document, chunk: Chunk) -> str:
    return document.text[chunk.start : chunk.end]


@settings(max_examples=40)
@given(DOCUMENTS)
def test_all_that_is_said_is_in_one_chunk_in_order(document: Document) -> None:
    chunks = chunks_of(document, tokens=MOST)
    assert all(one.end <= other.start for one, other in pairwise(chunks))
    said: set[int] = set()
    for chunk in chunks:
        assert chunk.text.endswith(span(document, chunk))
        said.update(range(chunk.start, chunk.end))
    unsaid = [place for place, each in enumerate(document.text) if each.isalnum() and place not in said]
    assert not unsaid
    # What is left out of all blocks is what divides them.
    assert not any(place not in said for block in document.blocks for place in _ends(document.text, block))


def _ends(text: str, block: Block) -> list[int]:
    return [place for place in range(block.start, block.end) if not text[place].isspace()]


@settings(max_examples=40)
@given(DOCUMENTS)
def test_no_chunk_is_too_long(document: Document) -> None:
    for chunk in chunks_of(document, tokens=MOST):
        said = span(document, chunk)
        # They are counted piece by piece; together a mark between two may count one more.
        assert tokens_in(said) <= MOST + 2
        assert len(said) <= (MOST_CHARACTERS + 1) * MOST
        # Four headings of a path, or three lines that code stands in, have up to 120 characters each.
        assert len(chunk.text) - len(said) <= 4 * 123 + MOST * MOST_CHARACTERS + 3 * 142


@settings(max_examples=40)
@given(DOCUMENTS)
def test_the_same_document_has_the_same_chunks(document: Document) -> None:
    again = Document(document.kind, document.text, tuple(document.blocks))
    assert chunks_of(document, tokens=MOST) == chunks_of(again, tokens=MOST)


@settings(max_examples=40)
@given(_markdown.map(read_markdown))
def test_only_what_is_tiny_goes_on_behind_a_heading_of_its_own_level(document: Document) -> None:
    headings = [block for block in document.blocks if block.kind == "heading"]
    chunks = chunks_of(document, tokens=MOST)
    # A document that fits is one chunk.
    for chunk in chunks if len(chunks) > 1 else ():
        above = [block for block in headings if block.start <= chunk.start]
        level = above[-1].level or 0 if above else 0
        for block in headings:
            if chunk.start < block.start < chunk.end and (block.level or 0) <= level:
                assert tokens_in(document.text[chunk.start : block.start].replace("***", "").strip()) < MOST // 4


@settings(max_examples=40)
@given(_markdown.map(read_markdown))
def test_all_of_a_chunk_stands_below_its_path(document: Document) -> None:
    for chunk in chunks_of(document, tokens=MOST):
        within = [block for block in document.blocks if chunk.start < block.end and block.start < chunk.end]
        assert all(block.path[: len(chunk.path)] == chunk.path for block in within if block.kind != "heading")


# Sections


def sections(*lengths: int, level: int = 2) -> Document:
    return read_markdown(
        "# House\n\n"
        + "\n\n".join(f"{'#' * level} Part {n}\n\n" + "word " * length for n, length in enumerate(lengths))
    )


def test_a_section_that_fits_is_a_chunk_with_its_heading() -> None:
    document = sections(30, 30, 30)
    first, second, third = chunks_of(document, tokens=MOST)
    assert first.path == ("House", "Part 0")
    assert second.text.startswith("House\n\n## Part 1\n\nword")
    assert (third.path, span(document, third)) == (("House", "Part 2"), "## Part 2\n\n" + "word " * 29 + "word")


def test_tiny_sections_are_joined_below_what_they_share() -> None:
    (all_,) = chunks_of(sections(3, 3, 3), tokens=MOST)
    assert all_.path == ("House",)
    assert [chunk.path for chunk in chunks_of(sections(30, 3, 3, 30), tokens=MOST)][1:] == [
        ("House",),
        ("House", "Part 3"),
    ]


def test_the_pieces_of_a_long_section_have_the_headings_above_them() -> None:
    document = sections(100)
    chunks = chunks_of(document, tokens=MOST)
    assert len(chunks) > 2
    assert {chunk.path for chunk in chunks} == {("House", "Part 0")}
    assert all(chunk.text == "House > Part 0\n\n" + span(document, chunk) for chunk in chunks[1:])


# Prose


@pytest.mark.parametrize(
    "sentences",
    [
        ["He lives at St. James's Park.", "Mr. Smith paid $3.50 for it.", "Was it dear?", "It was, he said."],
        [
            "Wir treffen uns am 3. Oktober in Köln.",
            "Das kostet z. B. Häuser und 1.500 Euro.",
            "So sei es, meint Dr. Bauer.",
        ],
        ["Er kam 2019.", "„Das ist lange her.“", "Vgl. dazu Abb. 3 und Nr. 4 des Anhangs."],
        ["M. Dupont arrive av. J.-C. en ville.", "« Bonjour à tous. »", "Il mange p. ex. Des pommes vertes."],
        ["She works for the U.S. Senate, e.g. The one.", "“Really?” she asked.", "Yes… it was so, they all agreed."],
        [
            "これは最初の長い長い長い長い長い長い文章です。",
            "二番目の長い長い長い長い長い長い長い文章\uff01",
            "三番目の文章\uff1f」",
        ],
    ],
)
def test_sentences_end_where_they_end(sentences: list[str]) -> None:
    between = "" if sentences[0].endswith("。") else " "
    text = between.join(sentences)
    starts = [0, *sentence_starts(text, 0, len(text))]
    found = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    # What is shorter than twenty characters may stay with what follows it.
    assert between.join(found) == text
    assert set(found) <= {between.join(sentences[a:b]) for a in range(len(sentences)) for b in range(a + 1, a + 3)}
    assert sum(len(sentence) >= 20 for sentence in sentences) <= len(found)


def test_prose_is_cut_between_sentences_and_rather_between_paragraphs() -> None:
    sentence = "Das Haus steht seit 1900 am Meer, wie Dr. Bauer sagt."
    document = read_text("\n\n".join([" ".join([sentence] * 3)] * 4))
    chunks = chunks_of(document, tokens=120)
    assert [span(document, chunk).count("\n\n") for chunk in chunks] == [1, 1]
    for chunk in chunks_of(document, tokens=MOST):
        assert span(document, chunk).startswith("Das Haus")
        assert span(document, chunk).endswith("sagt.")


def test_a_list_is_cut_between_items() -> None:
    document = read_markdown("\n".join(f"- The {n}. item, which has a text. And one more sentence." for n in range(20)))
    assert all(span(document, chunk).startswith("- The") for chunk in chunks_of(document, tokens=MOST))


def test_a_title_without_a_mark_is_not_torn_from_what_it_is_of() -> None:
    document = read_text("\n\n".join(f"Title {n}\n\n" + "A sentence is here. " * 6 for n in range(6)))
    assert all(span(document, chunk).startswith("Title") for chunk in chunks_of(document, tokens=MOST))


# Tables


def test_a_table_that_fits_keeps_its_caption_and_its_heading() -> None:
    text = "# Houses\n\n" + "word " * 60 + "\n\nTable 1: Houses by the sea.\n\n" + table_text([["a", "b"], ["1", "2"]])
    chunk = chunks_of(read_markdown(text), tokens=MOST)[-1]
    assert (chunk.kind, chunk.path) == ("table", ("Houses",))
    assert chunk.text == "Houses\n\nTable 1: Houses by the sea.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_a_long_table_is_cut_between_rows_below_its_caption_and_head() -> None:
    rows = [[f"house {n}", str(n)] for n in range(40)]
    document = read_markdown("# Houses\n\nTable 1: By the sea.\n\n" + table_text([["name", "size"], *rows]))
    first, *others = chunks_of(document, tokens=MOST)
    assert span(document, first).startswith(
        "# Houses\n\nTable 1: By the sea.\n\n| name | size |\n| --- | --- |\n| house 0 "
    )
    above = "Houses\n\nTable 1: By the sea.\n| name | size |\n| --- | --- |\n"
    for chunk in others:
        assert chunk.text == above + span(document, chunk)
        assert all(line in table_text(rows).split("\n") for line in span(document, chunk).split("\n"))


def test_a_long_row_is_cut_between_cells_below_their_names() -> None:
    document = read_delimited("\n".join(",".join(f"{c}{n}" for n in range(60)) for c in ("name", "value")), 10**6)
    chunk = next(chunk for chunk in chunks_of(document, tokens=MOST) if "value30" in span(document, chunk))
    names, rule, row_name, cells = chunk.text.split("\n")
    assert row_name == "| value0 |"
    columns = [name.strip() for name in names.strip("|").split("|")]
    assert [cell.strip().replace("value", "name") for cell in cells.strip(" |").split("|")] == columns
    assert rule.count("---") == len(columns)


# Code


def test_code_is_cut_before_functions_with_their_comments_and_says_what_they_stand_in() -> None:
    method = "    # What it does.\n    @cached\n    def run{n}(self, value):\n        return value + {n}\n"
    document = read_code("class Runner:\n" + "\n".join(method.format(n=n) for n in range(6)), "python")
    chunks = chunks_of(document, tokens=60)
    assert [span(document, chunk).split("\n")[0].strip() for chunk in chunks] == [
        "class Runner:",
        *["# What it does."] * (len(chunks) - 1),
    ]
    assert {chunk.kind for chunk in chunks} == {"code"}
    assert all(chunk.text.startswith("class Runner:\n# What it does.") for chunk in chunks[1:])


# Other readers


def test_a_page_is_cut_below_its_headings() -> None:
    page = "<main><h1>Houses</h1>" + "".join(
        f"<h2>Part {n}</h2><p>{'The house stands by the sea. ' * 8}</p>" for n in range(3)
    )
    paths = [chunk.path for chunk in chunks_of(read_html(f"<html><body>{page}</main></body></html>", 10**6), tokens=80)]
    assert paths == [("Houses", f"Part {n}") for n in range(3)]


# Bounds


def test_a_chunk_has_some_size() -> None:
    with pytest.raises(ValueError):
        chunks_of(read_text("x"), tokens=15)
    assert chunks_of(read_text("")) == []


def _table(rows: int, columns: int) -> Document:
    text = table_text([["1"] * columns] * rows)
    return Document("csv", text, (Block("table", 0, len(text)),))


HOSTILE: dict[str, Callable[[int], Document]] = {
    "no end": lambda n: read_text("x" * n),
    "spaces": lambda n: read_text("a" + " " * n + "b"),
    "dots": lambda n: read_text("." * n + "x"),
    "dots and brackets": lambda n: read_text(".)" * (n // 2) + "x"),
    "one sentence": lambda n: read_text("lorem ipsum " * (n // 12)),
    "short sentences": lambda n: read_text("Ab. Cd. " * (n // 8)),
    "no spaces": lambda n: read_text("日" * n),
    "joined": lambda n: read_text("👩\u200d" * (n // 2)),
    "headings": lambda n: read_markdown("# T\n\n" * (n // 5)),
    "lines of code": lambda n: read_code("x = 1\n" * (n // 6), "python"),
    "wide table": lambda n: _table(n // 2000, 500),
    "long table": lambda n: _table(n // 12, 3),
    "long cell": lambda n: read_markdown(f"| a | b |\n| --- | --- |\n| {'x' * n} | y |"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_it_takes_linear_time(kind: str) -> None:
    def seconds(document: Document) -> float:
        began = time.process_time()
        chunks_of(document)
        return time.process_time() - began

    small, large = HOSTILE[kind](10_000), HOSTILE[kind](80_000)
    # Eight times as long: 64 times where it is quadratic.
    assert min(seconds(large) for _ in range(2)) < 24 * max(0.002, min(seconds(small) for _ in range(3)))
