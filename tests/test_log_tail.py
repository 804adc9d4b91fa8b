"""LogTail: the latest lines of the log, in memory."""

import json
import logging

from agentic_backend.telemetry import LogTail

log = logging.getLogger("agentic_backend.tests")


def messages(tail: LogTail) -> list[str]:
    return [json.loads(line)["message"] for line in tail.text().splitlines()]


def test_lines_are_kept_while_it_is_attached() -> None:
    tail = LogTail()
    log.warning("before")
    with tail.attached():
        log.warning("one")
        log.error("two, Bearer eyJhbGciOi.eyJzdWIi.c2ln")
    log.warning("after")
    assert messages(tail) == ["one", "two, Bearer [redacted]"]


def test_only_so_many_lines_are_kept_and_each_only_so_long() -> None:
    tail = LogTail()
    with tail.attached():
        for number in range(600):
            log.warning("%d", number)
        assert messages(tail) == [str(number) for number in range(100, 600)]
        log.warning("x" * 10_000)
    assert max(map(len, tail.text().splitlines())) == 4000


def test_without_lines_there_is_no_text() -> None:
    assert LogTail().text() == ""
