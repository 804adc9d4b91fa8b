"""Throttle: few lines of a kind, an exact count of the others, and no second cause hidden behind the first."""

import json
import logging

from agentic_backend.telemetry import LogTail
from agentic_backend.telemetry.throttle import SUPPRESSED, Throttle

FLOOD = 10_000


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def record(message: str = "request refused", level: int = logging.INFO, **extras: object) -> logging.LogRecord:
    fields = {"name": "agentic_backend.x", "levelno": level, "levelname": logging.getLevelName(level), "msg": message}
    return logging.makeLogRecord({**fields, **extras})


def test_a_flood_leaves_few_lines_and_an_exact_count() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    passed = sum(throttle.filter(record(code="bad_frame", path=f"/{n}", request_id=str(n))) for n in range(FLOOD))
    assert throttle.summaries() == [], "its minute is not over"
    clock.now = 61
    [summary] = throttle.summaries()
    assert (summary.msg, vars(summary)["suppressed"], vars(summary)["code"]) == (
        SUPPRESSED,
        "request refused",
        "bad_frame",
    )
    assert passed == 20 and vars(summary)["count"] == FLOOD - passed
    assert throttle.summaries(at_end=True) == [], "told once"
    assert throttle.filter(record(code="bad_frame")), "the next minute begins anew"


def test_a_record_that_counts_several_is_counted_as_several() -> None:
    throttle = Throttle()
    passed = sum(throttle.filter(record(count=7)) for _ in range(FLOOD))
    [summary] = throttle.summaries(at_end=True)
    assert vars(summary)["count"] == 7 * (FLOOD - passed)


def raised(kind: type[Exception]) -> Exception:
    try:
        raise kind("it")
    except Exception as error:
        return error


def test_another_cause_is_shown_behind_a_flood_of_the_first() -> None:
    throttle = Throttle()
    others = [
        record("MongoDB failed", logging.WARNING, operation="append", reason="AutoReconnect"),
        record("MongoDB failed", logging.WARNING, operation="open", reason="AutoReconnect"),
        record("MongoDB failed", logging.WARNING, operation="append", reason="OperationFailure"),
        record("exchange failed", logging.ERROR, exc_info=(ValueError, raised(ValueError), None)),
        record("exchange failed", logging.ERROR, exc_info=(KeyError, raised(KeyError), None)),
    ]
    for each in others:
        assert [throttle.filter(each) for _ in range(1_000)].count(True) == 20
    assert [vars(summary)["count"] for summary in throttle.summaries(at_end=True)] == [980] * len(others)


def test_what_an_exchange_leaves_and_what_is_critical_passes() -> None:
    throttle = Throttle()
    for number in range(1_000):
        assert throttle.filter(record("exchange started", exchange_id=str(number)))
        assert throttle.filter(record("uncaught error", logging.CRITICAL))
    failures = [record("exchange failed", logging.ERROR, exchange_id=str(number)) for number in range(1_000)]
    assert sum(map(throttle.filter, failures)) == 20


def test_so_many_kinds_are_told_apart_and_none_is_lost() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    passed = sum(throttle.filter(record(code=str(number))) for number in range(FLOOD))
    summaries = throttle.summaries(at_end=True)
    assert passed < 1_100
    assert passed + sum(vars(summary)["count"] for summary in summaries) == FLOOD


def test_numbers_in_the_messages_of_other_packages_make_no_kinds() -> None:
    throttle = Throttle()
    noisy = [record(f"retry {number} in {number * 7} s", name="a_library") for number in range(100, 100 + FLOOD)]
    assert sum(map(throttle.filter, noisy)) == 20


def test_the_tail_is_throttled_too() -> None:
    tail, log = LogTail(), logging.getLogger("agentic_backend.tests")
    with tail.attached():
        for number in range(FLOOD):
            log.warning("request refused", extra={"request_id": str(number), "code": "bad_frame"})
        log.warning("request refused", extra={"code": "forbidden"})
    told = [json.loads(line) for line in tail.text().splitlines()]
    assert [line["code"] for line in told] == ["bad_frame"] * 20 + ["forbidden"]
