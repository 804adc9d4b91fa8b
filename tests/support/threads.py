"""Plugin: fails a test that leaves a thread running, and ends the run even if such a thread keeps the process alive."""

import faulthandler
import re
import sys
import threading
from collections.abc import Generator, Iterator

import pytest

from support.lanes import in_lane

_ENDS_WITHIN_S = 5
# Threads of executors end with the process, and serve later tests until then.
_EXECUTORS = re.compile(r"ThreadPoolExecutor-|asyncio_")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("run_ends_within_s", "seconds that a run may take to end after its last test", default="60")


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Set up before all other fixtures, so that the check runs after their teardown."""
    before = set(threading.enumerate())
    yield
    new = [thread for thread in threading.enumerate() if thread not in before and _keeps_alive(thread)]
    for thread in new:
        thread.join(_ENDS_WITHIN_S)
    left = [thread.name for thread in new if thread.is_alive()]
    assert not left, f"the test leaves threads: {', '.join(left)}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> Generator[None]:
    yield
    # Show the threads that still keep the process alive by then, and end it with an error. A lane is ended by the
    # process that started it.
    if not in_lane():
        faulthandler.dump_traceback_later(
            float(config.getini("run_ends_within_s")), exit=True, file=sys.__stderr__ or 2
        )


def _keeps_alive(thread: threading.Thread) -> bool:
    return not thread.daemon and not _EXECUTORS.match(thread.name)
