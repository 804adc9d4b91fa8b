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
from support.cpu_time import takes_at_most

from agentic_backend.disclosure.known_secrets import secrets_of
from agentic_backend.disclosure.redaction import redact, redacted
from agentic_backend.telemetry import JsonFormatter, story_of


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


def test_extras_are_redacted_however_deep_they_lie(written: io.StringIO) -> None:
    headers = {
        "X-Api-Key": "opaque-quokkaberry",
        "Authorization": "quokkaberry",
        "x": ["Bearer quokkaberry", ("dev:quokkaberry",)],
    }
    odd = {1: {"client_secret": "quokkaberry", "url": "https://h/?api_key=quokkaberry&page=2"}}
    logging.getLogger("agentic_backend.x").warning(
        "it", extra={"request": headers, "odd": odd, "user_id": "dev:quokkaberry"}
    )
    [line] = lines(written)
    assert "quokkaberry" not in str(line["odd"]) + str(line["user_id"]) + str(line["request"]["x"])
    assert "page=2" in line["odd"]["1"]["url"]


def test_what_is_told_of_an_extra_is_bounded(written: io.StringIO) -> None:
    deep: list[Any] = []
    deep.append(deep)
    logging.getLogger("agentic_backend.x").warning("it", extra={"deep": deep, "long": list(range(10_000))})
    [line] = lines(written)
    assert "…" in str(line["deep"])
    assert len(line["long"]) == 100


def told_of(**fields: Any) -> dict[str, Any]:
    """The line of a record."""
    told: dict[str, Any] = json.loads(JsonFormatter().format(logging.makeLogRecord(fields)))
    return told


def test_arguments_that_do_not_fit_are_not_told() -> None:
    assert told_of(name="a_library", msg="%d apples", args=("quokkaberry",))["message"] == "%d apples"


def test_a_secret_of_the_environment_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "quokkaberry")
    monkeypatch.setenv("GATEWAY_URL", "https://ann:plinthgaze@host/v1/wombatfruit-0123456789?k=zanthoxylum")
    secrets = ["quokkaberry", "plinthgaze", "wombatfruit-0123456789", "zanthoxylum"]
    told = str(told_of(name="a_library", msg=f"at host: {secrets}", extra_of_it=[{"deep": secrets}]))
    assert "at host" in told
    assert not [secret for secret in secrets if secret in told]


def test_the_working_directory_is_no_password() -> None:
    assert secrets_of({"PWD": "/home/ann/desk", "OLDPWD": "/home/ann", "DB_PWD": "quokkaberry"}) == ["quokkaberry"]


def test_a_url_that_is_none_hides_nothing_else() -> None:
    assert secrets_of({"A_URL": "http://[oops", "B_KEY": "quokkaberry"}) == ["quokkaberry"]


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "plain", [1, "a"], {"a": {"b": None}}])
def test_what_is_no_secret_stays_as_it_is(value: Any) -> None:
    assert redacted(value) == value


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


def test_a_story_is_told_of_errors_whose_attributes_raise() -> None:
    class Delegating(Exception):
        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

    [told] = story_of(Delegating("the canary sings"))
    assert told["type"] == f"{__name__}.{Delegating.__qualname__}" and "errno" not in told


@pytest.mark.parametrize("name", ["__class__", "__cause__", "__context__", "__traceback__", "args", "__str__"])
def test_a_story_is_told_of_errors_that_raise_where_they_are_looked_at(name: str) -> None:
    def fails(error: BaseException) -> object:
        raise RuntimeError("the canary sings")

    hostile = type("Hostile", (Exception,), {name: fails if name == "__str__" else property(fails)})
    outer = ValueError()
    outer.__cause__ = hostile()
    assert [told["type"] for told in story_of(outer)] == ["builtins.ValueError", f"{__name__}.Hostile"]


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
        ("https://h/v1?page=1&api_key=abcdef&x=2", "https://h/v1?page=1&api_key=[redacted]&x=2"),
        ("headers: {'x-api-key': 'abcdef', 'accept': 'x'}", "headers: {'x-api-key': '[redacted]', 'accept': 'x'}"),
        ("Authorization: Basic YW5uOnB3", "Authorization: Basic [redacted]"),
        ("client_secret=abcdef&grant=x", "client_secret=[redacted]&grant=x"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("the task is about keys and tokens", "the task is about keys and tokens"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_what_looks_like_a_secret_is_redacted(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize("text", ["x-", "-x-", "eyJ", "eyJ-", "?" + "key" * 14_000, "password ", "bearer "])
def test_no_text_takes_long_to_redact(text: str) -> None:
    text = (text * (40_000 // len(text) + 1))[:40_000]
    # A tenth of a second; an unbounded search takes from one to twenty.
    assert takes_at_most(1, lambda: redact(text))


WARNINGS = ["allowed warning", "theirs warning", "loud warning"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["ours debug", "ours info", "ours warning", "allowed debug", "allowed info", *WARNINGS]),
        ("info", ["ours info", "ours warning", "allowed info", *WARNINGS]),
        ("warning", ["ours warning", *WARNINGS]),
        ("error", []),
    ],
)
def test_other_packages_are_logged_from_warnings_on_unless_they_are_allowed(level: str, expected: list[str]) -> None:
    """Also those that set a level themselves, as OpenAI's does where a variable asks for it."""
    # In a process of its own, because the configuration is the process's.
    code = f"""
import logging
from agentic_backend.telemetry import configure_logging
configure_logging({level!r}, ["allowed"])
logging.getLogger("loud").setLevel(logging.DEBUG)
loggers = {{"agentic_backend.x": "ours", "allowed.x": "allowed", "a_library.x": "theirs", "loud": "loud"}}
for logger, name in loggers.items():
    for level in ("debug", "info", "warning"):
        getattr(logging.getLogger(logger), level)(f"{{name}} {{level}}")
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [json.loads(line)["message"] for line in process.stderr.splitlines()] == expected
    assert process.stdout == ""


def test_what_python_itself_would_print_is_logged_without_its_words() -> None:
    code = """
import logging, threading, warnings
from agentic_backend.telemetry import configure_logging
configure_logging("info")
warnings.warn("the key is sk-quokkaberry-1", stacklevel=1)
def fail(): raise ValueError("quokkaberry")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
class Odd:
    def __del__(self): fail()
Odd()
fail()
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = [json.loads(line) for line in process.stderr.splitlines()]
    assert [line["level"] for line in told] == ["warning", "error", "error", "critical"]
    assert "quokkaberry" not in process.stderr
