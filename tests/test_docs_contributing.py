"""CONTRIBUTING.md: each recipe names all files of its example, and the paths and commands of the page are there."""

import re
from functools import cache

import pytest
from support.documents import CHECKOUT

PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^### (.+)\n((?:(?!#).*\n)+)", PAGE, re.MULTILINE))
SOURCES = ("agentic_backend", "bench", "clients", "config", "docs", "tests", "tools")
TEXTS = {".py", ".js", ".mjs", ".ts", ".css", ".html", ".md", ".json", ".yaml", ".toml"}
# What servers of earlier versions have said and stored, and which tests run a file.
RECORDED = ("tests/compatibility/", "tools/tests_of.json")
CODE = re.compile(r"`([^`]+)`")


@cache
def texts() -> dict[str, str]:
    """Every text file of the product, its tests and its documentation, by its path."""
    files = (file for folder in SOURCES for file in (CHECKOUT / folder).rglob("*") if file.suffix in TEXTS)
    # The Helm chart has links to the rules.
    own = (file for file in files if "node_modules" not in file.parts and not file.is_symlink())
    found = {file.relative_to(CHECKOUT).as_posix(): file for file in own}
    return {path: file.read_text() for path, file in found.items() if not path.startswith(RECORDED)}


@cache
def mentioning(recipe: str) -> list[str]:
    """The paths of the files in which the recipe's example stands."""
    [example] = re.findall(r"^Example: (.+)$", recipe, re.MULTILINE)
    names = CODE.findall(example)
    mention = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    return [path for path, text in texts().items() if any(name in text for name in names) and mention.search(text)]


def rows(recipe: str) -> list[str]:
    """The files and folders in the first column of the recipe's table."""
    cells = re.findall(r"^\| (`.+?) \|", recipe, re.MULTILINE)
    return [path for cell in cells for path in CODE.findall(cell)]


def is_of(row: str, path: str) -> bool:
    return path.startswith(row) if row.endswith("/") else path == row


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_each_file_of_a_recipe_has_the_example(recipe: str) -> None:
    found = mentioning(recipe)
    assert [row for row in rows(recipe) if not any(is_of(row, path) for path in found)] == []


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_no_file_with_the_example_is_missing_in_its_recipe(recipe: str) -> None:
    listed = rows(recipe)
    assert [path for path in mentioning(recipe) if not any(is_of(row, path) for row in listed)] == []


def test_every_recipe_is_read() -> None:
    assert len(RECIPES) == PAGE.count("\n### ") > 0


def test_every_path_that_is_named_is_there() -> None:
    paths = {name for name in CODE.findall(PAGE) if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", name) and "/" in name}
    assert len(paths) > 80
    assert {path for path in paths if not (CHECKOUT / path).exists()} == set()


def test_every_command_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    named = {target for command in re.findall(r"`make ([\w -]+)`", PAGE) for target in command.split()}
    assert {"contract", "clients", "reference"} <= named <= targets
