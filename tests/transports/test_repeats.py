"""What happens over and over is told a few times a minute, and none of it is lost from the count."""

from agentic_backend.transports.repeats import Repeats


def test_each_key_is_told_once_a_minute_with_a_count() -> None:
    now = [0.0]
    repeats = Repeats(clock=lambda: now[0])
    assert [repeats.count("a") for _ in range(5)] == [1, 0, 0, 0, 0]
    assert repeats.count("b") == 1
    now[0] = 59.9
    assert repeats.count("a") == 0
    now[0] = 60.0
    assert repeats.count("a") == 6
    repeats.count("a", 3)
    assert list(repeats.untold()) == [("a", 3)]


def test_so_many_keys_are_kept() -> None:
    repeats = Repeats()
    for key in range(5_000):
        repeats.count(key)
        repeats.count(key)
    assert len(list(repeats.untold())) <= 1_000
