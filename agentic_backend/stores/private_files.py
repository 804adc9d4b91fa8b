"""What the server keeps is its own: directories are 0700, files 0600, whatever the umask; wider ones are narrowed."""

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)

_DIRECTORY, _FILE = 0o700, 0o600
_BESIDE = ("-wal", "-shm", "-journal")


def private_directory(directory: Path) -> None:
    """Make it with what leads to it, or narrow one that is there. Raises OSError where it can't be made.

    One that everybody may use, such as /tmp, stays as it is.
    """
    directory.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
    if directory.stat().st_mode & stat.S_ISVTX:
        log.warning("the data are in a directory that is everybody's", extra={"path": str(directory)})
    else:
        _narrow(directory)


def private_file(file: Path) -> None:
    """Make it, empty, or narrow one that is there. Raises OSError where it can't be made."""
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _FILE))
    _narrow(file)


def private_database(file: Path) -> None:
    """The same for a SQLite file; what SQLite writes beside it gets its rights. Raises OSError."""
    if not file.exists():
        private_file(file)
    for path in (file, *(file.with_name(file.name + suffix) for suffix in _BESIDE)):
        if path.exists():
            _narrow(path)


def _narrow(path: Path) -> None:
    """Take from others what they may do with it; where that can't be, as in a volume of another's, it is told."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return
    rights = {"path": str(path), "before": f"{mode:04o}"}
    try:
        path.chmod(mode & 0o700)
    except OSError as error:
        log.warning("others may read what the server keeps", extra={**rights, "reason": error.strerror})
    else:
        log.info("rights narrowed to the server's own", extra=rights)
