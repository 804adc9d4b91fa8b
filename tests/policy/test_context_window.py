"""What of a session's past fits into a model's context window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.errors import ContextTooLong
from agentic_backend.policy.prompt.context_window import MOST_MESSAGES, ContextWindow, PastExchange


def past(*sizes: list[int]) -> list[PastExchange]:
    """Exchanges whose messages are their own numbers of tokens."""
    return [PastExchange(number, size) for number, size in enumerate(sizes)]


def taken(window: ContextWindow, exchanges: list[PastExchange], room: int | None) -> list[int | None]:
    return [one.first_rank for one in window.taken(exchanges, room, lambda size: size).exchanges]


def test_the_room_is_what_prompt_reserve_and_question_leave() -> None:
    assert ContextWindow(10_000, 20, reserve=800).room(prompt=500, question=100) == 8_600
    assert ContextWindow(None, 20).room(prompt=500, question=1_000_000) is None


def test_a_question_that_has_no_room_is_refused() -> None:
    window = ContextWindow(2_000, 20, reserve=800)
    assert window.room(prompt=200, question=1_000) == 0
    with pytest.raises(ContextTooLong, match="about 1001 tokens, and there is room for 1000"):
        window.room(prompt=200, question=1_001)


def test_a_reserve_takes_no_more_than_half_of_a_small_window() -> None:
    assert ContextWindow(1_000, 20, reserve=1_500).room(prompt=0, question=0) == 500


def test_the_newest_exchanges_are_taken_as_a_whole() -> None:
    exchanges = past([1], [5, 5], [5, 5], [1, 1])
    assert taken(ContextWindow(100, 20), exchanges, 21) == [2, 3]
    assert taken(ContextWindow(100, 20), exchanges, 23) == [0, 1, 2, 3]
    assert taken(ContextWindow(100, 20), exchanges, 0) == []
    assert taken(ContextWindow(100, 2), exchanges, 100) == [2, 3]
    assert taken(ContextWindow(100, 0), exchanges, 100) == []


def test_of_an_unknown_window_the_last_messages_are_taken() -> None:
    exchanges = past(*[[1, 1]] * 40)
    assert len(taken(ContextWindow(None, 100), exchanges, None)) == MOST_MESSAGES // 2
    assert len(taken(ContextWindow(None, 20), exchanges, None)) == 20
    assert taken(ContextWindow(None, 20), past([1], [1] * 51), None) == [1], "the last exchange is whole"


def test_an_exchange_that_fits_nowhere_takes_none_of_the_others_away() -> None:
    assert taken(ContextWindow(100, 20), past([5], [5], [90], [5]), 20) == [0, 1, 3]
    assert taken(ContextWindow(100, 2), past([5], [5], [90], [5]), 20) == [1, 3]


@pytest.mark.parametrize(
    ("sizes", "room", "lacks"), [([5, 5], 10, False), ([5, 5], 9, True), ([90, 5], 10, False), ([5, 5], None, False)]
)
def test_it_tells_whether_more_room_would_give_more(sizes: list[int], room: int | None, lacks: bool) -> None:
    found = ContextWindow(100, 20).taken(past(*[[size] for size in sizes]), room, lambda size: size)
    assert found.lacks_room is lacks
    assert not ContextWindow(100, 1).taken(past([5], [5]), 10, lambda size: size).lacks_room


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=12), st.integers(0, 200), st.integers(0, 12))
def test_no_more_fits_and_no_less(sizes: list[list[int]], room: int, most: int) -> None:
    found = taken(ContextWindow(1_000, most), past(*sizes), room)
    fitting = [number for number, size in enumerate(sizes) if sum(size) <= room]
    assert found == fitting[len(fitting) - len(found) :]
    assert sum(sum(sizes[number or 0]) for number in found) <= room and len(found) <= most
    if len(found) < min(most, len(fitting)):
        assert sum(sum(sizes[number]) for number in fitting[len(fitting) - len(found) - 1 :]) > room


def test_what_is_left_out_is_not_counted() -> None:
    counted = []

    def count(size: int) -> int:
        counted.append(size)
        return size

    ContextWindow(1_000, 10_000).taken(past(*[[1, 2]] * 5_000), 30, count)
    assert len(counted) == 22
