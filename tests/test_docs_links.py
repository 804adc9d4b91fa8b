"""Every link within the documentation leads to a file, and to a heading in it."""

import re
from functools import cache
from pathlib import Path

import pytest
from support.documents import CHECKOUT, DOCS, PAGES, prose

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of the headings, as forges make them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return frozenset(re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in plain)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(prose(page)):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{target}#{anchor}"


def test_the_indexes_have_every_page() -> None:
    for folder, pages in [
        ("how-to", "*.md"),
        ("decisions", "*.md"),
        ("examples", "*/README.md"),
        ("reference", "*.md"),
    ]:
        index = DOCS / ("how-to" if folder == "reference" else folder) / "README.md"
        linked = {(index.parent / target).resolve() for target, _ in LINK.findall(prose(index))}
        assert {page for page in (DOCS / folder).glob(pages) if page != index} <= linked


def test_each_how_to_begins_with_its_title_in_the_index() -> None:
    index = (DOCS / "how-to" / "README.md").read_text()
    listed = dict(re.findall(r"^- \[([^]]+)\]\(([\w-]+\.md)\)$", index, re.MULTILINE))
    for title, file in listed.items():
        assert (DOCS / "how-to" / file).read_text().startswith(f"# {title}\n")
