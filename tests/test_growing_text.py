"""GrowingText: what was added, in order, however many pieces it came in."""

import pytest

from agentic_backend.growing_text import GrowingText


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
