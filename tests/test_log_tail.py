"""LogTail: the latest lines of the log, in memory."""

import json
import logging
import time
from datetime import UTC, datetime

from agentic_backend.telemetry import LogTail, story_of
from agentic_backend.telemetry.configuration import know_secrets

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


def test_a_line_tells_what_was_so_when_it_was_logged() -> None:
    tail, problems = LogTail(), ["one"]
    with tail.attached():
        for told in ({"problems": problems}, {"code": "plain"}):
            before = datetime.now(UTC)
            log.warning("it", extra=told)
            after = datetime.now(UTC)
            problems.append("two")
            time.sleep(0.01)
            line = json.loads(tail.text().splitlines()[-1])
            at = datetime.fromisoformat(line["time"])
            assert before.replace(microsecond=before.microsecond // 1000 * 1000) <= at <= after
        first, _ = map(json.loads, tail.text().splitlines())
    assert first["problems"] == ["one"]


def test_what_a_lines_argument_becomes_later_is_not_told() -> None:
    tail, asked = LogTail(), ["one"]
    with tail.attached():
        log.warning("asked %s", asked)
        asked.append("two")
    assert messages(tail) == ["asked ['one']"]


def test_what_another_handler_makes_of_a_record_is_not_told() -> None:
    class Coloring(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            record.msg = f"\033[31m{record.msg}"

    tail, coloring = LogTail(), Coloring()
    with tail.attached():
        logging.getLogger().addHandler(coloring)
        try:
            log.warning("plain")
        finally:
            logging.getLogger().removeHandler(coloring)
    assert messages(tail) == ["plain"]


def test_a_record_that_can_not_be_shown_hides_no_other() -> None:
    class Odd(logging.LogRecord):
        def getMessage(self) -> str:
            raise RuntimeError

    tail = LogTail()
    fields = {"name": log.name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": "odd"}
    with tail.attached():
        tail.handle(Odd(log.name, logging.WARNING, "file", 1, "odd", (), None))
        tail.handle(logging.makeLogRecord({**fields, "created": 1e20}))
        log.warning("after")
    assert messages(tail)[-1] == "after"


def test_a_secret_that_is_known_later_is_hidden_in_the_lines_of_before() -> None:
    tail = LogTail()
    with tail.attached():
        log.warning("it", extra={"code": "horse-battery-staple"})
        know_secrets(["horse-battery-staple"])
        assert "horse" not in tail.text()


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
