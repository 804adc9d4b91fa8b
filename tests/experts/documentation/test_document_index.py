"""The index of Markdown documents."""

import os
from pathlib import Path

from agentic_backend.experts.documentation.document_index import (
    MAX_EXCERPT,
    SHIPPED,
    DocumentIndex,
    documents_in,
    split,
)

MARKDOWN = """\
# Tea

Leaves in hot water.

## Green tea

```
# not a heading
```

## Black tea ##

Strong.

## Empty
"""


def index(**texts: str) -> DocumentIndex:
    return DocumentIndex(passage for name, text in texts.items() for passage in split(f"{name}.md", text))


def test_a_document_is_split_by_its_headings() -> None:
    passages = list(split("tea.md", MARKDOWN))
    assert [(passage.title, passage.heading, passage.text) for passage in passages] == [
        ("Tea", "Tea", "Leaves in hot water."),
        ("Tea", "Green tea", "```\n# not a heading\n```"),
        ("Tea", "Black tea", "Strong."),
    ]


def test_a_document_without_a_heading_is_named_after_its_file() -> None:
    assert [(passage.title, passage.heading) for passage in split("notes.md", "Some text.")] == [
        ("notes.md", "notes.md")
    ]


def test_rare_words_count_more_than_frequent_ones() -> None:
    documents = index(
        a="# A\n\nwater water water", b="# B\n\nwater and saffron", c="# C\n\nwater", d="# D\n\nnothing of it"
    )
    assert [passage.title for passage in documents.search("water saffron")] == ["B", "A", "C"]


def test_plurals_and_case_make_no_difference() -> None:
    assert [passage.title for passage in index(a="# A\n\nOne session.").search("SESSIONS")] == ["A"]


def test_a_search_for_nothing_finds_nothing() -> None:
    assert index(a="# A\n\ntext").search("") == []
    assert index(a="# A\n\ntext").search("what is the") == []
    assert index().search("text") == []


def test_a_long_passage_is_shown_in_part() -> None:
    [passage] = index(a="# A\n\n" + "word " * 1000).search("word")
    assert len(passage.shown()["text"]) <= MAX_EXCERPT + 2


def test_documents_are_read_from_a_folder_and_those_within(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text(MARKDOWN, encoding="utf-8")
    (tmp_path / "other.txt").write_text("# Other\n\ntea", encoding="utf-8")
    (tmp_path / "cups").mkdir()
    (tmp_path / "cups" / "china.md").write_bytes(b"# China\n\ntea \xff")
    documents = documents_in(tmp_path)
    assert documents.titles == ["China", "Tea"]
    assert [passage.file for passage in documents.search("china")] == ["cups/china.md"]


def test_a_folder_is_read_again_only_where_a_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "tea.md"
    file.write_text(MARKDOWN, encoding="utf-8")
    before = documents_in(tmp_path)
    assert documents_in(tmp_path) is before
    file.write_text("# Coffee\n\nBeans.", encoding="utf-8")
    os.utime(file, ns=(0, 0))
    assert documents_in(tmp_path).titles == ["Coffee"]
    file.unlink()
    assert documents_in(tmp_path).titles == []


def test_the_shipped_documents_are_complete() -> None:
    assert len(documents_in(SHIPPED).titles) == 8
