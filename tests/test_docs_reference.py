"""docs/reference is what `make reference` writes, and has every key of the catalog."""

import pytest
from support.reference import REFERENCE, pages

from agentic_backend.agents.catalog.catalog_schema import catalog_schema

PAGES = pages()


@pytest.mark.parametrize("file", PAGES)
def test_the_page_is_current(file: str) -> None:
    assert (REFERENCE / file).read_text() == PAGES[file], "run `make reference`"


def test_no_other_page_is_there() -> None:
    assert {path.name for path in REFERENCE.iterdir()} == set(PAGES)


def test_every_key_of_the_catalog_has_its_row() -> None:
    for name, definition in catalog_schema()["$defs"].items():
        for key, told in definition.get("properties", {}).items():
            assert told.get("description"), f"{name}.{key}"
            rows = [line for line in PAGES["catalog.md"].splitlines() if line.startswith(f"| `{key}` |")]
            assert any(" ".join(told["description"].split()) in row for row in rows), f"{name}.{key}"
