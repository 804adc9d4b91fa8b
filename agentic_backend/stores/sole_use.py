"""One server per data directory, which owns every exchange in it.

A second one would end as interrupted what the first one runs. The lock is the operating system's, which takes it back
from a process that dies, however it dies.
"""

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentic_backend.stores.private_files import private_file


@contextmanager
def sole_use(directory: Path) -> Iterator[None]:
    """Hold `directory` for this server. Raises OSError where another one holds it, or nothing can be written to it."""
    private_file(directory / "server.lock")
    with open(directory / "server.lock", "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another server uses this directory", str(directory)) from None
        yield
