"""SavedFiles: tells when one of some files is saved, in place or by a rename, by looking at them every second."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentic_backend.agents.authors_modules import Stamp, stamp_of

_EVERY_S = 1.0


class SavedFiles:
    def __init__(self, files: Callable[[], Iterable[Path]], saved: Callable[[], None]) -> None:
        """`files` gives the files to look at, at each look; `saved` is called in a thread of its own."""
        self._files = files
        self._saved = saved
        self._over = threading.Event()
        self._stamps = self._look()

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
        while not self._over.wait(_EVERY_S):
            before, self._stamps = self._stamps, self._look()
            if before != self._stamps and not self._over.is_set():
                self._saved()

    def _look(self) -> dict[Path, Stamp]:
        return {file: stamp_of(file) for file in self._files()}
