"""The protocol's documentation under test: every frame, event, error code and close code has its line."""

import re
from pathlib import Path

import pytest

from agentic_backend.errors import AgenticError
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.events import Event
from agentic_backend.protocol.frames import Ask, Authenticate, Follow, Frame, HumanResume, Ping, Stop, Unfollow

DOCUMENT = (Path(__file__).parent.parent / "docs" / "protocol.md").read_text()


def subclasses(base: type) -> set[type]:
    return {found for direct in base.__subclasses__() for found in {direct, *subclasses(direct)}}


@pytest.mark.parametrize("frame", (Authenticate, Ask, HumanResume, Stop, Follow, Unfollow, Ping))
def test_every_frame_has_its_line_with_all_of_its_fields(frame: type[Frame]) -> None:
    fields = frame.model_fields
    line = re.search(rf"^\| `{fields['type'].default}` \|([^|]*)\|", DOCUMENT, flags=re.MULTILINE)
    assert line is not None
    # Attachments have to be empty.
    optional = {name: "" if each.is_required() else "?" for name, each in fields.items() if name != "attachments"}
    del optional["type"]
    assert dict(re.findall(r"`(\w+)(\??)`", line[1])) == optional


@pytest.mark.parametrize("event", sorted(subclasses(Event), key=lambda event: event.__name__))
def test_every_event_has_its_line(event: type[Event]) -> None:
    event_type = event.model_fields["type"].default
    if isinstance(event_type, str):
        assert f"| `{event_type}` |" in DOCUMENT


# Those of tests are no codes of the server.
ERRORS = [error for error in subclasses(AgenticError) if error.__module__ == AgenticError.__module__]


@pytest.mark.parametrize("error", sorted(ERRORS, key=lambda error: error.__name__))
def test_every_error_code_has_its_line(error: type[AgenticError]) -> None:
    retryable = ("after a new token" if error.http_status == 401 else "yes") if error.retryable else "no"
    assert f"| `{error.code}` | {error.http_status} | {error.whose} | {retryable} |" in DOCUMENT


def test_every_close_code_has_its_line_with_what_the_client_is_to_do() -> None:
    lines = re.findall(r"^\| (\d{4}) \| ([^|]+) \|", DOCUMENT, flags=re.MULTILINE)
    assert lines == [(str(code.value), code.advice.value) for code in sorted(CloseCode)]
