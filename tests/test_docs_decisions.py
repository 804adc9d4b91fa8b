"""docs/decisions: numbered without a gap, each in its form, and each shown by what there is."""

import re
from pathlib import Path

import pytest
from support.documents import CHECKOUT, DOCS

PAGES = sorted(path for path in (DOCS / "decisions").glob("*.md") if path.name != "README.md")
SECTIONS = ["Context", "Decision", "Consequences", "Where it is shown"]


def test_they_are_numbered_and_titled_as_in_the_index() -> None:
    assert [path.name[:4] for path in PAGES] == [f"{number:04}" for number in range(1, len(PAGES) + 1)]
    index = re.findall(r"^\| \[\d{4}\]\(([\w-]+\.md)\) \| (.+) \|$", (DOCS / "decisions/README.md").read_text(), re.M)
    assert index == [(path.name, path.read_text().partition("\n")[0].removeprefix("# ")) for path in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_has_its_sections_and_is_shown_by_what_there_is(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    shown = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text.partition(f"## {SECTIONS[-1]}")[2])
    assert shown
    for path, test in shown:
        assert f"def {test}(" in (CHECKOUT / path).read_text() if test else (CHECKOUT / path).exists()
