"""The directories that the workers of one server share; their parent makes and holds them, before it forks them."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import ENAMETOOLONG
from pathlib import Path
from tempfile import TemporaryDirectory

from agentic_backend.config.settings import Settings
from agentic_backend.relay.zmq.peers import LONGEST_PATH
from agentic_backend.server.process import sole_server
from agentic_backend.stores.opening import CannotOpenStore, sqlite_file
from agentic_backend.stores.private_files import private_database
from agentic_backend.stores.sqlite.instances import forget_instances

# The longest number of a worker, after its separator.
_NUMBER = 3


@contextmanager
def held_for_workers(settings: Settings) -> Iterator[Path | None]:
    """Hold the directory of a SQLite file, in which nobody is alive yet, for all workers.

    Yields the private directory in which they hear each other, None if they do by Redis. No thread and no connection is
    left. Raises OSError if another server uses the file's directory or none can be made, and CannotOpenStore.
    """
    with ExitStack() as stack:
        stack.enter_context(sole_server(settings))
        _prepare_file(settings)
        yield None if settings.broadcast.url is not None else stack.enter_context(_sockets_directory())


def _prepare_file(settings: Settings) -> None:
    file = sqlite_file(settings.store.url, settings.data.directory)
    if file is None:
        return
    private_database(file)
    try:
        forget_instances(file, settings.store.timeout_s)
    except sqlite3.Error as error:
        raise CannotOpenStore(f"{file.parent}: {error}") from error


@contextmanager
def _sockets_directory() -> Iterator[Path]:
    """A new directory that only this user may enter, with a path short enough for sockets in it."""
    with TemporaryDirectory(prefix="agentic-", ignore_cleanup_errors=True) as directory:
        if len(os.fsencode(directory)) + _NUMBER > LONGEST_PATH:
            raise OSError(ENAMETOOLONG, "too long for a socket; set TMPDIR to a short path", directory)
        yield Path(directory)
