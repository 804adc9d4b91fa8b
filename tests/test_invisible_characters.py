"""The characters that nobody sees are shown as their code, and leave the rest as it is."""

import json
import unicodedata

import pytest
from support.unseen_characters import UNSEEN, code

from agentic_backend.text.invisible_characters import (
    HIDING,
    IGNORABLE,
    OBEYED,
    is_invisible,
    is_space,
    shown,
    shown_json,
    shown_lines,
)

ALL = [chr(point) for point in range(0x110000)]
SEEN = "Grüße, Ann! 你好 こんにちは שלום السلام नमस्ते 안녕 😀 1️"[:-1] + "e\u0301 £ € – …"


@pytest.mark.parametrize("character", [*UNSEEN.values(), "\ud800"], ids=[*UNSEEN, "half a character"])
def test_each_kind_is_shown_as_its_code(character: str) -> None:
    text = f"pay {character}ann"
    assert shown(text) == shown_lines(text) == f"pay {code(character)}ann"
    assert shown_json({text: [text]}).isascii()
    assert json.loads(shown_json({text: [text]}, indent=2)) == {text: [text]}


def test_what_people_see_stays() -> None:
    assert shown(SEEN) == shown_lines(SEEN) == SEEN
    assert shown_json(SEEN) == f'"{SEEN}"'


def test_line_feeds_and_tabs_stay_in_values_alone() -> None:
    assert shown("a\n\tb") == r"a\u{a}\u{9}b"
    assert shown_lines("a\n\tb") == "a\n\tb"


def test_every_character_without_a_picture_of_its_own_is_among_them() -> None:
    unseen = {one for one in ALL if unicodedata.category(one)[0] in "CZ"} - {" "}
    assert unseen <= set(filter(is_invisible, ALL))
    assert not set(filter(is_invisible, ALL)) & {chr(point) for point in range(0x20, 0x7F)}


def test_of_each_json_text_the_value_is_read_again() -> None:
    text = "".join(one for one in ALL if unicodedata.category(one) != "Cs")
    written = shown_json(text)
    assert json.loads(written) == text
    assert not any(map(is_invisible, written))


def test_matching_leaves_out_no_space_and_nothing_that_is_seen() -> None:
    for one in filter(IGNORABLE.match, ALL):
        assert is_invisible(one) and not is_space(one)
    assert {one for one in ALL if HIDING.match(one)} < {one for one in ALL if IGNORABLE.match(one)}
    # What scripts and emoji need is taken out of no text.
    assert not HIDING.search("\u034f\u115f\u1160\u17b4\u180b\u200c\u200d\u3164\ufe0f\uffa0")


def test_all_that_a_terminal_obeys_is_among_them() -> None:
    obeyed = {one for one in ALL if OBEYED.match(one)}
    assert obeyed <= set(filter(is_invisible, ALL))
    directions = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    turning = {one for one in ALL if unicodedata.bidirectional(one) in directions}
    assert obeyed >= turning | {"\u200e", "\u200f", "\u061c", "\x1b", "\r", "\u2028", "\x9b"}
