"""SavedFiles: tells when one of some files is saved, in place or by a rename, by looking at them twice a second."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentic_backend.agents.code.authors_modules import Stamp, stamp_of

# What is saved is served within a second, its imports included.
_EVERY_S = 0.5
# The times of files come from a clock that turns less often than the others.
_CLOCK_NS = 20_000_000


class SavedFiles:
    def __init__(self, files: Callable[[], Iterable[Path]], saved: Callable[[], None], read_at_ns: int) -> None:
        """`files` gives the files to look at, at each look; `saved` is called in a thread of its own.

        `read_at_ns` is when they were read, in nanoseconds since 1970: what was saved since counts too.
        """
        self._files = files
        self._saved = saved
        self._read_at_ns = read_at_ns
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the files while the context is open."""
        # A daemon: a file system that hangs doesn't keep the process from ending.
        threading.Thread(target=self._watch, name="saved-files", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        stamps = self._look()
        if any(_changed_ns(file) > self._read_at_ns - _CLOCK_NS for file in stamps):
            self._saved()
        while not self._over.wait(_EVERY_S):
            before, stamps = stamps, self._look()
            if before != stamps and not self._over.is_set():
                self._saved()

    def _look(self) -> dict[Path, Stamp]:
        return {file: stamp_of(file) for file in self._files()}


def _changed_ns(file: Path) -> int:
    """When the file was saved, in place or by a rename; 0 if it is not there."""
    try:
        return os.stat(file).st_ctime_ns
    except (OSError, ValueError):
        return 0
