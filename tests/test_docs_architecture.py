"""docs/architecture.md has every room, and each class, member, function, module and path that it names is there."""

import ast
import functools
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "agentic_backend"
TEXT = (CHECKOUT / "docs" / "architecture.md").read_text()
PROSE = re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)
NAMES = set(re.findall(r"`([\w./-]+)`", PROSE))
SOURCES = [path.read_text() for path in PACKAGE.rglob("*.py")]
WORDS = {word for source in SOURCES for word in re.findall(r"\w+", source)}
OF_LIBRARIES = {"ClientSession"}


@functools.cache
def members_by_class() -> dict[str, set[str]]:
    members = defaultdict(set)
    for node in (node for source in SOURCES for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.ClassDef):
            members[node.name] |= {
                part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return members


@pytest.mark.parametrize("name", sorted(NAMES - OF_LIBRARIES))
def test_every_name_is_there(name: str) -> None:
    if "/" in name or name.endswith((".py", ".toml", ".js")):
        assert (PACKAGE / name).exists() or (CHECKOUT / name).exists()
    elif re.match(r"_?[A-Z]\w*[a-z]", name):
        owner, _, member = name.partition(".")
        assert owner in members_by_class()
        assert not member or member in members_by_class()[owner]
    elif "." not in name and "-" not in name:
        assert name in WORDS


def test_every_room_is_in_the_table() -> None:
    rooms = {f"{path.name}/" for path in PACKAGE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    modules = {path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py"}
    rows = {name for line in PROSE.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line)}
    assert rooms | modules <= rows


def test_who_may_import_whom_is_what_the_linter_checks() -> None:
    contracts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    told = "\n".join(layers).replace("agentic_backend.", "").replace(" | ", ", ")
    assert f"```text\n{told}\n```" in TEXT


def levels() -> dict[str, list[str]]:
    """The modules at each level of the package, by its folder."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py":
            found[path.parent.relative_to(PACKAGE).as_posix()].append(path.stem)
    return found


def test_every_room_in_a_room_is_told_in_its_own_words() -> None:
    rooms = {level for level in levels() if "/" in level and not level.startswith(("experts/", "new_agent/"))}
    told = dict(re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", TEXT, re.MULTILINE))
    words = {room: ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) for room in rooms}
    assert rooms and {room: told.get(room) for room in rooms} == words


def test_no_level_has_more_modules_than_one_looks_through() -> None:
    assert {level: len(names) for level, names in levels().items() if len(names) > 16} == {}


def test_no_module_is_longer_than_one_reads() -> None:
    lengths = {path.name: path.read_text().count("\n") for path in PACKAGE.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 600} == {}


def test_no_two_modules_of_a_room_differ_by_a_plural() -> None:
    by_room = defaultdict(set)
    for level, names in levels().items():
        by_room[level.partition("/")[0]] |= set(names)
    assert {
        room: both for room, names in by_room.items() if (both := {name for name in names if f"{name}s" in names})
    } == {}


GLOSSARY = TEXT.partition("## One word for each thing")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    "former", ["census", "lull", "patience", "farewell", "watchers", "list_followers", "session_news"]
)
def test_a_thing_has_no_second_name(former: str) -> None:
    assert GLOSSARY.count("\n| *") > 15
    assert not any(path.stem == former for path in PACKAGE.rglob("*.py"))
    assert former.title().replace("_", "") not in WORDS
