"""Keeps the server's files private: directories are 0700, files 0600, whatever the umask; wider rights are narrowed.

Only one server may use a data directory: a second one would end the exchanges of the first one as interrupted.
"""

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

_DIRECTORY, _FILE = 0o700, 0o600
_BESIDE = ("-wal", "-shm", "-journal")


def private_directory(directory: Path) -> None:
    """Create the directory and its parents, or narrow an existing one. Raises OSError if it can't be created.

    A directory that everybody may use, such as /tmp, stays unchanged.
    """
    directory.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
    if directory.stat().st_mode & stat.S_ISVTX:
        log.warning("data directory open to everybody", extra={"path": str(directory)})
    else:
        _narrow(directory)


def private_file(file: Path) -> None:
    """Create an empty file, or narrow an existing one. Raises OSError if it can't be created."""
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _FILE))
    _narrow(file)


def private_database(file: Path) -> None:
    """The same for a SQLite file and the files beside it, which get its rights from SQLite. Raises OSError."""
    if not file.exists():
        private_file(file)
    for path in (file, *(file.with_name(file.name + suffix) for suffix in _BESIDE)):
        if path.exists():
            _narrow(path)


@contextmanager
def sole_use(directory: Path) -> Iterator[None]:
    """Lock `directory` for this server. Raises OSError if another server holds the lock, or it can't be written.

    The operating system holds the lock, and releases it if the process dies.
    """
    private_file(directory / "server.lock")
    with open(directory / "server.lock", "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another server uses this directory", str(directory)) from None
        yield


def _narrow(path: Path) -> None:
    """Remove the rights of others; log a warning if that fails, as in a volume of another user."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return
    rights = {"path": str(path), "before": f"{mode:04o}"}
    try:
        path.chmod(mode & 0o700)
    except OSError as error:
        log.warning("file permissions too wide", extra={**rights, "reason": error.strerror})
    else:
        log.info("file permissions narrowed", extra=rights)
