"""Log lines: JSON with the ids of what they speak of, and without what nobody may read there."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from agentic_backend.telemetry import JsonFormatter, redact, story_of


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the root logger writes, in the real form."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_line_has_its_time_its_level_its_logger_and_its_extras(written: io.StringIO) -> None:
    log = logging.getLogger("agentic_backend.some.place")
    log.warning("it %s", "happened", extra={"session_id": "s", "zebra": 1, "request_id": "r", "code": "internal"})
    [line] = lines(written)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "agentic_backend.some.place",
        "message": "it happened",
        "request_id": "r",
        "session_id": "s",
        "zebra": 1,
        "code": "internal",
    }
    assert list(line)[3:5] == ["request_id", "session_id"], "the ids come first"


def test_whatever_is_logged_comes_out_as_one_line(written: io.StringIO) -> None:
    logging.getLogger("x").warning("two\nlines \ud800 \u2028", extra={"big": 2**80, "odd": {1, 2}, "text": "\udfff"})
    [line] = lines(written)
    assert line["message"] == "two\nlines \ud800 \u2028"
    assert line["big"] == 2**80
    assert len(written.getvalue().splitlines()) == 1


def test_what_a_library_logs_to_the_root_is_told_by_its_place(written: io.StringIO) -> None:
    logging.warning("Failed to validate notification: %s. Message was: canary", ValueError("canary"))
    [line] = lines(written)
    assert "canary" not in written.getvalue()
    assert "test_telemetry, line" in line["message"]


def test_an_exception_is_told_by_types_and_places_and_not_by_its_text(written: io.StringIO) -> None:
    try:
        try:
            raise OSError(111, "the canary refused")
        except OSError as cause:
            raise ValueError("the canary sings") from cause
    except ValueError:
        logging.getLogger("x").exception("failed")
    [line] = lines(written)
    outer, inner = line["exception"]
    assert outer["type"] == "builtins.ValueError"
    assert (inner["type"], inner["errno"]) == ("builtins.ConnectionRefusedError", 111)
    assert "test_telemetry.py:" in outer["at"][0]
    assert "canary" not in written.getvalue()


def test_a_story_ends_though_its_errors_go_round() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert 1 < len(story_of(first)) < 20


async def test_a_task_that_nobody_awaits_tells_nothing_of_its_exception(written: io.StringIO) -> None:
    async def fail() -> None:
        raise ValueError("the canary sings")

    failing = asyncio.create_task(fail())
    while not failing.done():
        await asyncio.sleep(0)
    del failing
    [line] = lines(written)
    assert line["message"] == "Task exception was never retrieved"
    assert line["exception"][0]["type"] == "builtins.ValueError"
    assert "canary" not in written.getvalue()


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("GET /ws?token=abc.def&x=1 HTTP/1.1", "GET /ws?token=[redacted]&x=1 HTTP/1.1"),
        ("/ws?x=1&access_token=abc", "/ws?x=1&access_token=[redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("authorization: bearer abc", "authorization: bearer [redacted]"),
        ("it was eyJhbGciOi.eyJzdWIi.c2ln here", "it was [redacted] here"),
        ("dev:alice:17 and dev:bob@x", "[redacted] and [redacted]"),
        ("key sk-abcdefgh1234 is bad", "key [redacted] is bad"),
        ("mongodb://ann:pass%20word@db:27017/chat", "mongodb://[redacted]@db:27017/chat"),
        ("http://127.0.0.1:8000/a@b", "http://127.0.0.1:8000/a@b"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_what_looks_like_a_secret_is_redacted(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["ours debug", "ours info", "ours warning", "theirs info", "theirs warning", "httpx warning"]),
        ("info", ["ours info", "ours warning", "theirs info", "theirs warning", "httpx warning"]),
        ("warning", ["ours warning", "theirs warning", "httpx warning"]),
        ("error", []),
    ],
)
def test_below_info_only_the_server_itself_is_logged(level: str, expected: list[str]) -> None:
    # In a process of its own, because the configuration is the process's.
    code = f"""
import logging
from agentic_backend.telemetry import configure_logging
configure_logging({level!r})
for logger, name in (("agentic_backend.x", "ours"), ("a_library.x", "theirs"), ("httpx", "httpx")):
    for level in ("debug", "info", "warning"):
        getattr(logging.getLogger(logger), level)(f"{{name}} {{level}}")
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [json.loads(line)["message"] for line in process.stderr.splitlines()] == expected
    assert process.stdout == ""
