"""What happens over and over is told a few times a minute, and none of it is lost from the count."""

import logging

import pytest

from agentic_backend.transports.repeats import Repeats, bounded_records


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


@pytest.mark.parametrize("module", ["chatbot_controller", "connection", "rest_calls", "rest_errors", "sse"])
def test_records_of_one_kind_are_bounded_and_others_are_not(module: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = logging.getLogger(f"agentic_backend.transports.{module}")
    with bounded_records():
        for number in range(1_000):
            log.info("request refused", extra={"code": "bad_frame", "path": f"/{number}"})
        log.info("request refused", extra={"code": "forbidden"})
    log.info("afterwards")
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["request refused"] * 61 + ["afterwards"]
