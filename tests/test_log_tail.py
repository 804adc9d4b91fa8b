"""LogTail: the latest lines of the log, in memory."""

import json
import logging

from agentic_backend.telemetry import LogTail, story_of

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
            log.warning("it", extra={"code": str(number)})
        codes = [json.loads(line)["code"] for line in tail.text().splitlines()]
        assert codes == [str(number) for number in range(100, 600)]
        log.warning("x" * 10_000)
    assert max(map(len, tail.text().splitlines())) == 4000


def failing(depth: int) -> None:
    if depth:
        failing(depth - 1)
    raise ValueError("x" * 3_000)


def test_a_long_story_is_shortened_and_stays_json() -> None:
    error = None
    for _ in range(8):
        try:
            try:
                failing(12)
            except ValueError as failed:
                raise LookupError("…" * 2_000) from failed if error is None else error
        except LookupError as again:
            error = again
    assert error is not None
    story = story_of(error, lambda cause, _: str(cause))
    tail = LogTail()
    with tail.attached():
        log.error("exchange failed", extra={"exchange_id": "e", "exception": story})
        log.error("failed", exc_info=error)
    told, untold = (json.loads(line) for line in tail.text().splitlines())
    assert (told["message"], told["exchange_id"]) == ("exchange failed", "e")
    assert told["exception"][0]["type"] == untold["exception"][0]["type"] == "builtins.LookupError"
    assert told["exception"][0]["at"][-1].startswith(__file__)


def test_without_lines_there_is_no_text() -> None:
    assert LogTail().text() == ""
