"""Screen: where the terminal client writes, on a terminal or into pipes."""

import os
import sys
import threading
from typing import Literal, TextIO

from agentic_backend.terminal.safe_text import safe

Style = Literal["plain", "faint", "bold", "red"]
_CODES: dict[Style, str] = {"plain": "", "faint": "\x1b[2m", "bold": "\x1b[1m", "red": "\x1b[31m"}


class Screen:
    """Answers go to standard output. So do notes on a terminal; else they go to standard error.

    Whatever is written is made safe for a terminal. Any thread may write.
    """

    def __init__(self, output: TextIO = sys.stdout, errors: TextIO = sys.stderr) -> None:
        self.is_live = output.isatty()
        """Whether somebody watches the answer come."""
        self._output = output
        self._notes = output if self.is_live else errors
        self._coloured = self._notes.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._open_line = False
        self._lock = threading.Lock()

    def write(self, text: str, style: Style = "plain") -> None:
        """A piece of an answer."""
        if not text:
            return
        with self._lock:
            self._put(self._output, self._styled(text, style) if self.is_live else safe(text))
            self._open_line = not text.endswith("\n")

    def end_line(self) -> None:
        """What comes next begins a line of its own."""
        with self._lock:
            if self._open_line:
                self._put(self._output, "\n")
            self._open_line = False

    def say(self, text: str) -> None:
        """What was asked for, such as the result of a command: whole lines."""
        self.end_line()
        self.write(text if text.endswith("\n") else f"{text}\n")

    def note(self, text: str, style: Style = "faint") -> None:
        """A line beside the answers."""
        if self._notes is self._output:
            self.end_line()
        with self._lock:
            self._put(self._notes, f"{self._styled(text, style)}\n")

    def fault(self, text: str) -> None:
        self.note(text, "red")

    def _styled(self, text: str, style: Style) -> str:
        code = _CODES[style]
        return f"{code}{safe(text)}\x1b[0m" if code and self._coloured else safe(text)

    def _put(self, stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


def reason_of(error: Exception) -> str:
    """What a person is told of an error: of a file its name and why, without the system's number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
