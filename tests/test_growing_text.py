"""GrowingText: what was added, in order, however many pieces it came in."""

import pytest

from agentic_backend.text.growing_text import GrowingText


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 5_000])
def test_it_is_all_that_was_added(count: int) -> None:
    text = GrowingText()
    for number in range(count):
        text.add(f"{number} ")
        text.add("")
    assert len(text.parts) <= 512 + count / 512
    expected = "".join(f"{number} " for number in range(count))
    assert text.joined() == expected and text.joined() == expected
    assert len(text.parts) <= 1


def test_one_goes_on_with_another() -> None:
    first, second = GrowingText("a"), GrowingText("c")
    first.add("b")
    second.add("d")
    first.add_all(second)
    first.add("e")
    assert (first.joined(), second.joined()) == ("abcde", "cd")


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 4_999, 5_000, 6_000])
def test_what_comes_after_a_length_is_told_without_joining_it(length: int) -> None:
    text = GrowingText("0123456789")
    for number in range(10, 5_000):
        text.add(str(number % 10))
    parts = len(text.parts)
    assert text.length == 5_000
    assert text.after(length) == ("0123456789" * 500)[length:]
    assert len(text.parts) == parts


@pytest.mark.parametrize(
    ("whole", "begins"), [("abcd", True), ("abcd and more", True), ("abc", False), ("xbcd", False), ("abxd", False)]
)
def test_it_tells_whether_another_text_begins_with_it(whole: str, begins: bool) -> None:
    text = GrowingText("ab")
    text.add("c")
    text.add("d")
    assert text.begins(whole) is begins
    assert GrowingText().begins(whole)
