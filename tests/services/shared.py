"""One process of each service for all lanes of a run: the first lane that needs it starts it; it ends with the run."""

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from services.cache import filled_once

_DIRECTORY = "TESTS_RUN_DIRECTORY"


class Service(Protocol):
    port: int

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...


S = TypeVar("S", bound=Service)

_started: list[Service] = []
"""The services that this lane has started, kept here because their processes run until the end of the run."""


def begin_run() -> None:
    """Create the run's directory and put it into the environment; called once, before the lanes start."""
    os.environ[_DIRECTORY] = tempfile.mkdtemp(prefix="agentic-backend-tests-")


def end_run() -> None:
    """Kill every service and delete its data; called once, after the lanes have ended."""
    directory = Path(os.environ.pop(_DIRECTORY))
    for note in directory.glob("*.started"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(note.read_text().split()[0]), signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def shared(name: str, make: Callable[[Path], S]) -> S:
    """The run's service of this name, which no test stops; `make` gets an empty directory for its data."""
    run = Path(os.environ[_DIRECTORY])
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data, note = run / f"{name}-{os.getpid()}", run / f"{name}.started"
        data.mkdir()
        service = make(data)
        if note.is_file():
            service.port = int(note.read_text().split()[1])
            return service
        service.start()
        _started.append(service)
        note.write_text(f"{service.pid} {service.port}")
    return service


def once_a_run(name: str, make: Callable[[Path], None]) -> Path:
    """The run's directory of this name, which the first lane that needs it lets `make` fill."""
    return filled_once(Path(os.environ[_DIRECTORY]) / name, make)
