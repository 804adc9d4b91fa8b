"""Hostile YAML costs what harmless YAML of the same size costs, or is refused before."""

import time
from collections.abc import Callable
from functools import cache

import pytest

from agentic_backend.config.yaml.located_yaml import ConfigError, yaml_in

SIZE = 500_000
MOST_NODES = 50_000
# A quadratic one would take a hundred times as long.
MOST_TIMES = 5


def repeated(unit: str, before: str = "", after: str = "") -> str:
    return before + unit * (SIZE // len(unit)) + after


HOSTILE: dict[str, str] = {
    "keys": repeated("a:\n"),
    "keys with question marks": repeated("? a\n"),
    "lists in lists": repeated("["),
    "mappings in mappings": repeated("{a: "),
    "block lists in block lists": repeated("- "),
    "block keys in block keys": repeated("? "),
    "a deep indent": "".join(f"{' ' * level}a:\n" for level in range(1_000)),
    "empty lists": repeated("[],", "a: [", "]"),
    "keys without values": repeated("a,", "{", "}"),
    "anchors": "".join(f"a{number}: &a{number} x\n" for number in range(SIZE // 18)),
    "aliases": repeated("- *a\n", "a: &a x\nb:\n"),
    "merges": repeated("- {<<: *a}\n", "a: &a {x: 1}\nb:\n"),
    "a chain of merges": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n + 1}: &a{n + 1} {{<<: *a{n}, k{n}: 1}}\n" for n in range(9_999)),
    "tags": repeated("- !!python/name:os.system x\n", "a:\n"),
    "tag lines": "".join(f"%TAG !a{number}! x\n" for number in range(SIZE // 16)) + "---\na: b\n",
    "a long tag": repeated("x", "a: !", " b"),
    "many documents": repeated("---\na: b\n"),
    "a plain text": repeated("x ", "a: "),
    "a text of many lines": repeated(" x\n", "a:\n"),
    "escapes": repeated("\\n", 'a: "', '"'),
    "quotes": repeated("''", "a: '", "'"),
    "a block text": repeated("  x\n", "a: |\n"),
    "empty lines": repeated("\n", "a: |\n", "  x"),
    "comments": repeated("# x\n"),
    "line breaks of Windows": repeated("a: b\r\n"),
    "a long key": repeated("x", "? ", "\n: 1"),
    "what is no key": repeated("a:"),
    "mistakes below a long key": repeated("a: !x 1,", "? " + "k" * 1_000 + "\n: {", "}"),
    "the same key": repeated("a: 1\n"),
    "an integer": repeated("1", "a: "),
    "a fraction": repeated("1", "a: 1."),
    "minutes and seconds": repeated("1:", "a: ", "1"),
    "underscores": repeated("_", "a: 1"),
    "nearly a date": repeated(" ", "a: 2001-01-01 ", "x"),
    "UTF-16": repeated("a\0:\0"),
}


def taken_s(call: Callable[[], object]) -> float:
    """The best of three, in seconds of this thread's processor time."""

    def once() -> float:
        began = time.thread_time()
        call()
        return time.thread_time() - began

    return min(once() for _ in range(3))


@cache
def harmless_s() -> float:
    text = repeated("- some words of a text\n", "texts:\n")
    assert len(yaml_in("f", text, MOST_NODES).values["texts"]) > 20_000
    return taken_s(lambda: yaml_in("f", text, MOST_NODES))


def read(text: str) -> object:
    try:
        return yaml_in("f", text, MOST_NODES)
    except ConfigError as error:
        return error


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_text_costs_no_more_than_a_harmless_one(kind: str) -> None:
    assert taken_s(lambda: read(HOSTILE[kind])) < MOST_TIMES * harmless_s()


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a:\n" * 50_001, 25_000, 3, "more than 50000 values"),
        ("a: " + "[" * 2_500, 1, 67, "is nested too deeply: more than 64 levels"),
        ("# x\n" + "%TAG !a! x\n" * 65, 66, 1, "more than 64 lines of %TAG"),
    ],
)
def test_what_is_out_of_bounds_is_refused_with_its_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_in("f", text, MOST_NODES)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.message) == (line, column, message)
