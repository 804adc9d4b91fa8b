"""What is linked of modules: which of them, in what order, and how a line is found again."""

import json
from typing import Any

import pytest

from agentic_backend.transports.page.es_module import LinkError
from agentic_backend.transports.page.linker import Linker
from agentic_backend.transports.page.page import WEB

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SOURCES = {path.relative_to(WEB).as_posix(): path.read_bytes() for path in WEB.rglob("*.js")}


def linker(**sources: str) -> Linker:
    return Linker({f"{name}.js": source.encode() for name, source in sources.items()}, "main.js")


def test_each_module_of_the_page_can_be_linked() -> None:
    page = Linker(SOURCES, "main.js")
    for path in SOURCES:
        page.link(path)


def test_a_module_runs_once_and_after_what_it_imports() -> None:
    linked = linker(
        main='import "./a.js";\nimport "./b.js";\nsay("main");',
        a='import "./c.js";\nsay("a");',
        b='import "./c.js";\nsay("b");',
        c='say("c");',
    ).link("main.js")
    said = [line for line in linked.code.decode().splitlines() if line.startswith("say")]
    assert said == ['say("c");', 'say("a");', 'say("b");', 'say("main");']


def test_a_file_that_is_loaded_later_has_only_what_the_page_lacks() -> None:
    late = linker(
        main='import "./a.js";\nimport("./late.js");',
        a="first;",
        late='import "./a.js";\nimport "./b.js";',
        b="second;",
    ).link("late.js")
    assert b"second;" in late.code and b"first;" not in late.code


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ({"main": 'import "./gone.js";'}, "main.js: imports gone.js, which is not there"),
        ({"main": 'import "./a.js";', "a": 'import "./main.js";'}, "main.js → a.js → main.js"),
    ],
)
def test_what_cannot_be_linked_is_refused(sources: dict[str, str], problem: str) -> None:
    with pytest.raises(LinkError, match=problem):
        linker(**sources)


def test_only_the_entry_s_modules_may_await() -> None:
    with pytest.raises(LinkError, match=r"late\.js: awaits"):
        linker(main='import("./late.js");', late="await 1;").link("late.js")


def test_a_source_map_finds_each_line() -> None:
    main = '/** Doc. */\n\nimport { a } from "./rooms/a.js";\n\nsay(a);'
    linked = linker(main=main, **{"rooms/a": "\n// why\nexport const a = 1;"}).link("main.js")
    found = dict(zip(linked.code.decode().splitlines(), origins(linked.source_map), strict=False))
    assert found["const a = 1;"] == ("../rooms/a.js", 2)
    assert found["say(a);"] == ("../main.js", 4)


def origins(source_map: bytes) -> list[tuple[str, int] | None]:
    """The source and line of each line of a linked file."""
    read: dict[str, Any] = json.loads(source_map)
    found: list[tuple[str, int] | None] = []
    source = line = 0
    for mapping in read["mappings"].split(";"):
        if not mapping:
            found.append(None)
            continue
        _, source_by, line_by, _ = numbers(mapping)
        source, line = source + source_by, line + line_by
        found.append((read["sources"][source], line))
    return found


def numbers(mapping: str) -> list[int]:
    """The base64 VLQs of one segment."""
    values, value, shift = [], 0, 0
    for digit in map(DIGITS.index, mapping):
        value |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            values.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return values
