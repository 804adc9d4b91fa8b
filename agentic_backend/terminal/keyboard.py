"""Keyboard: the lines that a person types, or that come through a pipe, and Ctrl-C."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TextIO

with contextlib.suppress(ImportError):
    # Python's `input` then edits lines and has a history.
    import readline

    if os.environ.get("TERM", "dumb") != "dumb":
        # Python switches it off. With it, the lines of what is pasted are one ask, and nothing is sent before Return.
        readline.parse_and_bind("set enable-bracketed-paste on")


class Keyboard:
    def __init__(self) -> None:
        self.is_live = sys.stdin.isatty()
        """Whether a person types."""
        self.is_read = False
        """Whether a line is awaited."""
        self._interrupted = False
        """Whether Ctrl-C was pressed since the last line was read."""
        self._action: Callable[[], None] | None = None

    def hear_interrupts(self) -> None:
        """From now on Ctrl-C is for whoever reads a line, or for `interrupting`."""
        signal.signal(signal.SIGINT, self._interrupt)

    def read(self, prompt: str) -> str:
        """The next line. Raises EOFError after the last one, and KeyboardInterrupt at Ctrl-C."""
        self._interrupted = False
        self.is_read = True
        try:
            return self._line(prompt)
        except (EOFError, KeyboardInterrupt):
            if self.is_live:
                # What comes next begins a line of its own, not beside the prompt.
                self._prompts().write("\n")
            raise
        finally:
            self.is_read = False

    def read_ask(self) -> str:
        """The next ask; a person may end a line with a backslash to go on with it on the next one."""
        lines = [self.read("> ")]
        while self.is_live and lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self.read(". "))
        return "\n".join(lines).strip()

    @contextlib.contextmanager
    def interrupting(self, action: Callable[[], None]) -> Iterator[None]:
        """The first Ctrl-C since the last line was read runs `action`; a further one raises KeyboardInterrupt."""
        self._action = action
        try:
            if self._interrupted:
                action()
            yield
        finally:
            self._action = None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.is_read or self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        if self._action is not None:
            self._action()

    def _line(self, prompt: str) -> str:
        if self.is_live and sys.stdout.isatty():
            return input(prompt)
        if self.is_live:
            self._prompts().write(prompt)
            self._prompts().flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    @staticmethod
    def _prompts() -> TextIO:
        return sys.stdout if sys.stdout.isatty() else sys.stderr
