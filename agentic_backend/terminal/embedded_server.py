"""EmbeddedServer: a server of the working directory's catalog, in a process of its own that ends with the client."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_ADDRESS = re.compile(r"^Chat at (http\S+?)(?:,.*)?\n", re.MULTILINE)
_START_S = 180
_END_S = 20
_LOOK_EVERY_S = 0.05
_LINES_TOLD = 20


class CannotServe(Exception):
    """The server has not started; the text is the end of its log."""


class EmbeddedServer:
    """A context manager; `address` is where the server is, and `log` the file of its output.

    The file is kept where the server has failed.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """`command` starts it; it ends when its standard input does, also where the client is killed."""
        self.address = ""
        descriptor, name = tempfile.mkstemp(prefix="agentic-backend-chat-", suffix=".log")
        self.log = Path(name)
        # A session of its own: Ctrl-C is the client's.
        with os.fdopen(descriptor, "wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "AGENTIC_LOG__FORMAT": "console", "PYTHONUNBUFFERED": "1"},
            )

    def __enter__(self) -> "EmbeddedServer":
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()

    def warnings(self) -> list[str]:
        """What the log has said so far, at most its last lines."""
        lines = [line for line in _ADDRESS.sub("", self._output()).splitlines() if line]
        return lines[-_LINES_TOLD:]

    def _wait(self) -> None:
        """Wait until it serves. Raises CannotServe."""
        deadline = time.monotonic() + _START_S
        while (found := _ADDRESS.search(self._output())) is None:
            if self._process.poll() is not None:
                raise CannotServe("\n".join(self.warnings()) or f"It has ended with {self._process.returncode}.")
            if time.monotonic() > deadline:
                raise CannotServe(f"It has not started within {_START_S} seconds; its log is {self.log}")
            time.sleep(_LOOK_EVERY_S)
        self.address = found[1]

    def _output(self) -> str:
        return self.log.read_text(errors="replace")

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if status == 0 or not self.address:
            self.log.unlink(missing_ok=True)
