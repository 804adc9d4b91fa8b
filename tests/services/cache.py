"""Builds or fetches services once per machine, into a cache outside the tree."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "agentic-backend")


def version_of(*sources: Path) -> str:
    """A hash of the files' contents."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def cached(name: str, version: str, make: Callable[[Path], None]) -> Path:
    """The directory that `make` has filled for this version, now or in an earlier run.

    Other processes wait until it is complete. `make` gets an empty directory, and raises if it can't fill it.
    """
    return filled_once(_CACHE / name / version, make)


def filled_once(directory: Path, make: Callable[[Path], None]) -> Path:
    """The directory that the first process which needs it lets `make` fill; others wait until it is complete."""
    unfinished = directory.with_name(f"{directory.name}-unfinished")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(directory)
    return directory


def run(command: Sequence[str], timeout_s: float, cwd: Path | None = None) -> str | None:
    """Run a build step; return None on success, otherwise the end of its output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        text=True,
        errors="replace",
    )
    return f"{command[0]} failed: {done.stdout[-2000:]}" if done.returncode else None
