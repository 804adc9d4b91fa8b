"""How fast messages are taken: a second's worth at once, then at a bounded rate; large ones one after the other."""

from agentic_backend.server.input.message_pace import LARGE_BYTES, LargeMessages, MessagePace


def test_a_second_s_worth_is_taken_at_once_and_then_a_bounded_rate() -> None:
    pace = MessagePace()
    for _ in range(500):
        pace.count(0, 0.0)
    assert pace.wait_s(0.0) < 1e-9
    for _ in range(50):
        pace.count(0, 0.0)
    assert 0.099 < pace.wait_s(0.0) < 0.101
    assert pace.wait_s(10.0) == 0
    for _ in range(500):
        pace.count(0, 10.0)
    assert pace.wait_s(10.0) < 1e-9, "silence earns no more than one second's worth"


def test_bytes_count_too() -> None:
    pace = MessagePace()
    for _ in range(4):
        pace.count(2 * 1024 * 1024, 0.0)
    assert 0.9 < pace.wait_s(0.0) < 1.1


def test_large_messages_of_all_sockets_are_spaced_and_small_ones_never_wait() -> None:
    large = LargeMessages()
    waits_s = [large.turn_in_s(1024 * 1024, 5.0) for _ in range(3)]
    assert [round(wait_s, 3) for wait_s in waits_s] == [0, 0.1, 0.2]
    assert large.turn_in_s(LARGE_BYTES, 5.0) == 0
    assert large.turn_in_s(1024 * 1024, 60.0) == 0
