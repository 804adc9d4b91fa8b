"""Progress: shows how far the runs are, as a bar on a terminal, else as a line for each run."""

from typing import TextIO

from agentic_backend.evals.results import CaseResult
from agentic_backend.telemetry.formatters import printable

_WIDTH = 30
_CLEAR_LINE = "\r\x1b[K"


class Progress:
    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream = stream
        self._total = total
        self._is_bar = stream.isatty()
        self._ended = self._not_passed = 0

    def begin(self) -> None:
        if self._is_bar:
            self._draw()

    def ended(self, result: CaseResult) -> None:
        """Show that a run has ended."""
        self._ended += 1
        self._not_passed += result.outcome != "passed"
        if self._is_bar:
            self._draw()
        else:
            self._write(f"[{self._ended}/{self._total}] {result.outcome} {printable(result.id)}\n")

    def clear(self) -> None:
        """Make room for what is printed next."""
        if self._is_bar:
            self._write(_CLEAR_LINE)

    def interrupted(self) -> None:
        """Say how far it has come."""
        self.clear()
        self._write(f"interrupted: {self._ended}/{self._total} runs have ended, {self._not_passed} not passed\n")

    def _draw(self) -> None:
        filled = _WIDTH * self._ended // self._total
        bar = "#" * filled + "-" * (_WIDTH - filled)
        self._write(f"{_CLEAR_LINE}[{bar}] {self._ended}/{self._total}, {self._not_passed} not passed")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
