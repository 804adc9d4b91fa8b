"""Handlers of log records: a line that is logged while another one is on its way."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from agentic_backend.telemetry import JsonFormatter, LogTail, StderrHandler, throttled_handler
from agentic_backend.telemetry.throttled_handler import ThrottledHandler

LOG = logging.getLogger("agentic_backend.tests.interrupted")
OURS = str(Path(throttled_handler.__file__).parent)


@contextmanager
def interrupted(handler: ThrottledHandler) -> Iterator[list[str]]:
    """Log to `handler`; at each call that the package of handlers makes, another line is logged.

    So may a signal's handler or a finalizer do it. Yields the names of the functions that were interrupted.
    """
    interruptions: list[str] = []

    def interrupt(frame: FrameType, event: str, called: object) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(OURS):
            interruptions.append(frame.f_code.co_name)
            LOG.warning("interruption", extra={"code": str(len(interruptions))})

    LOG.addHandler(handler)
    LOG.propagate = False
    try:
        sys.setprofile(interrupt)
        yield interruptions
    finally:
        sys.setprofile(None)
        LOG.propagate = True
        LOG.removeHandler(handler)


def test_a_line_that_is_logged_amid_another_one_is_written_and_blocks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "log"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    handler = StderrHandler(descriptor, JsonFormatter())
    with handler.in_background(), interrupted(handler) as interruptions:
        LOG.warning("line")
    os.close(descriptor)
    assert {"write", "filter", "summaries"} <= set(interruptions)
    assert file.read_text().count("\n") == len(interruptions) + 1


def test_the_tail_has_such_a_line_too() -> None:
    tail = LogTail()
    with interrupted(tail) as interruptions:
        LOG.warning("line")
    assert tail.text().count("\n") == len(interruptions) + 1
