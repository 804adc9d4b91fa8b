"""Report: tells who has started a command what becomes of the files of a folder."""

import sys
from collections import Counter
from collections.abc import Mapping, Set

from agentic_backend.applications.retrieval.documents import StoredDocument
from agentic_backend.applications.retrieval.intake.intake import Outcome
from agentic_backend.applications.retrieval.shelves import Place

_WIDTH = 30
_WORDS = ("put", "unchanged", "removed", "left out", "failed")


class Report:
    """As a line for each file; on a terminal as a bar, below the lines of what goes wrong."""

    def __init__(self, files: int) -> None:
        self._files = files
        self._looked_at = 0
        self._counts: Counter[str] = Counter()
        self._is_live = sys.stdout.isatty()
        self.waiting: dict[tuple[Place, str], StoredDocument] = {}
        """The documents that are still to be read."""
        self._to_read = 0
        self._left = 0

    @property
    def has_failed(self) -> bool:
        return self._counts["failed"] > 0

    def next(self) -> None:
        """The next file is put."""
        self._looked_at += 1
        self._show("Putting", self._looked_at, self._files)

    def tell(self, outcome: Outcome) -> None:
        word = word_of(outcome)
        self._counts[word] += 1
        if outcome.document is not None and outcome.document.value.state in ("receiving", "waiting"):
            self.waiting[Place.of(outcome.document), outcome.document.key] = outcome.document
            self._to_read += 1
        if not self._is_live or outcome.reason is not None:
            self._print(f"{self._looked_at}/{self._files} {told(outcome)}")

    def read(
        self,
        some: Mapping[tuple[Place, str], StoredDocument],
        found: Mapping[tuple[Place, str], StoredDocument],
        left: Set[tuple[Place, str]],
    ) -> None:
        """What was found of some documents that waited; those that are `left` are not read here."""
        for place, document in some.items():
            state = found[place].value.state if place in found else None
            if place in found and state in ("receiving", "waiting"):
                if place in left:
                    del self.waiting[place]
                    self._left += 1
                continue
            del self.waiting[place]
            if state == "failed":
                self._counts["failed"] += 1
                self._print(f"failed {document.value.name}: {found[place].value.reason}")
        self._show("Reading", self._to_read - len(self.waiting), self._to_read)

    def end(self) -> None:
        self._print(", ".join(f"{self._counts[word]} {word}" for word in _WORDS))
        if self._left:
            print(f"{self._left} to be read by a server, whose modules look at what leaves it")

    def _print(self, line: str) -> None:
        # It takes the place of the bar.
        print(f"\r\x1b[K{line}" if self._is_live else line)

    def _show(self, what: str, done: int, of: int) -> None:
        if self._is_live and of:
            filled = _WIDTH * done // of
            print(f"\r\x1b[K{what} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{of}", end="", flush=True)


def word_of(outcome: Outcome) -> str:
    if outcome.reason is not None:
        return "failed" if outcome.has_failed else "left out"
    return "removed" if outcome.is_removed else "put" if outcome.is_new else "unchanged"


def told(outcome: Outcome) -> str:
    """What became of a file, in one line."""
    reason = "" if outcome.reason is None else f": {outcome.reason}"
    return f"{word_of(outcome)} {outcome.name}{reason}"
