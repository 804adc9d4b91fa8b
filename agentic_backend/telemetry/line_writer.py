"""LineWriter: writes lines to a file descriptor that may be slow or dead, without holding its callers up for long.

The descriptor is mostly a pipe. If its reader stops, a write blocks for good, and with it the event loop. So a thread
writes while the server runs; `write` only adds to a queue, bounded in bytes. What does not fit is dropped and counted,
and the count becomes a line as soon as there is room. Before the thread runs, as in the parent of workers, which must
fork without threads, `write` itself waits for room, at most _PATIENCE_S. A file on a full disk is taken for a slow
reader too, except that nobody waits for it: its lines wait in the queue.

A killed process loses what the thread has not written yet: the lines of the last _GATHER_S, for which it lets lines
gather, because to wake it for each one costs more than to write the line. `flush` waits for the queue, which the
process does at its end and after each critical line.
"""

import errno
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentic_backend.system_errors import reason_of

_QUEUED_BYTES = 4 * 1024 * 1024
_PATIENCE_S = 1.0
"""The longest wait for a reader, before lines are dropped and at the end."""
_LOOK_EVERY_S = 1.0
_GATHER_S = 0.02
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FULL_FOR_S = 0.25
"""How long a full disk is left alone."""


class LineWriter:
    def __init__(
        self,
        descriptor: int,
        dropped: Callable[[int], str],
        *,
        queued_bytes: int = _QUEUED_BYTES,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """`dropped` makes the line that tells how many were dropped; `tick` is called about once a second."""
        self._descriptor = descriptor
        self._dropped = dropped
        self._most = queued_bytes
        self._tick = tick
        self._changed = threading.Condition(threading.RLock())
        """Guards the fields below; held for moments only, never during a write. Its thread may take it again: a line
        may be logged in between, see throttled_handler.
        """
        # The lines that wait, the oldest first, and their bytes.
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        """Lines dropped since the last line that told so."""
        self._lost_in_all = 0
        """Lines lost since the process began, with those that nobody could read any more."""
        self._stalled_since: float | None = None
        """Since when lines wait of which none could be written, as time.monotonic."""
        self._is_writing = False
        """Whether the thread is between taking a line and having written it."""
        self._is_in_background = False
        self._full = ""
        """The system's words for a disk that was full at the last write, else empty."""

    @property
    def lines_lost(self) -> int:
        """Lines that were dropped, or that nobody could read any more."""
        return self._lost_in_all

    @property
    def stalled_s(self) -> float:
        """For how long lines wait of which none could be written; 0 while they are written."""
        since = self._stalled_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def stalled_by(self) -> str:
        """Why they wait."""
        return self._full or "nobody reads it"

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Let a thread write while the context is open; leaving it waits for the queue, at most _PATIENCE_S."""
        self._is_in_background = True
        thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_in_background = False
                self._changed.notify_all()
            thread.join(_PATIENCE_S)

    def write(self, line: str) -> None:
        """Write `line` and a line feed. Never raises."""
        data = f"{line}\n".encode(errors="backslashreplace")
        with self._changed:
            if self._bytes + len(data) > self._most:
                self._lost += 1
                self._lost_in_all += 1
                return
            if self._lost:
                # The gap is told where it is.
                data = self._gap() + data
            # With lines to write, the thread is awake.
            wakes = not self._lines
            self._lines.append(data)
            self._bytes += len(data)
            if wakes:
                self._changed.notify_all()
        if not self._is_in_background:
            self._write_all(time.monotonic() + _PATIENCE_S)

    def flush(self) -> None:
        """Wait until all is written, at most _PATIENCE_S."""
        deadline = time.monotonic() + _PATIENCE_S
        if not self._is_in_background:
            self._write_all(deadline)
            return
        with self._changed:
            self._changed.wait_for(lambda: not (self._lines or self._lost or self._is_writing), _PATIENCE_S)

    def _run(self) -> None:
        looked_at = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or not self._is_in_background, _LOOK_EVERY_S)
                if not (self._lines or self._is_in_background):
                    return
                has_lines = bool(self._lines)
            if has_lines:
                time.sleep(_FULL_FOR_S if self._full else _GATHER_S)
            self._write_all(time.monotonic() + _LOOK_EVERY_S)
            if time.monotonic() - looked_at >= _LOOK_EVERY_S:
                looked_at = time.monotonic()
                self._tick()

    def _write_all(self, deadline: float) -> None:
        """Write what waits, until `deadline`."""
        while (data := self._taken()) is not None:
            written = self._written(data, deadline)
            with self._changed:
                self._is_writing = False
                if written:
                    self._stalled_since = None
                elif self._stalled_since is None:
                    self._stalled_since = time.monotonic()
                if written < len(data):
                    self._lines.appendleft(data[written:])
                    self._bytes += len(data) - written
                self._changed.notify_all()
            if written < len(data):
                return

    def _taken(self) -> bytes | None:
        with self._changed:
            if self._is_writing:
                # Another thread writes: two would mix their lines.
                return None
            if self._lines:
                data = self._gathered()
                self._bytes -= len(data)
            elif self._lost:
                data = self._gap()
            else:
                return None
            self._is_writing = True
            return data

    def _gathered(self) -> bytes:
        """The oldest lines, as many as one write takes, but at least one."""
        gathered = [self._lines.popleft()]
        size = len(gathered[0])
        while self._lines and size + len(self._lines[0]) <= select.PIPE_BUF:
            gathered.append(self._lines.popleft())
            size += len(gathered[-1])
        return b"".join(gathered)

    def _gap(self) -> bytes:
        """The line that tells how many lines were dropped."""
        lost, self._lost = self._lost, 0
        return f"{self._dropped(lost)}\n".encode()

    def _written(self, data: bytes, deadline: float) -> int:
        """Write `data`; return the bytes written by the deadline."""
        poll, written = select.poll(), 0
        poll.register(self._descriptor, select.POLLOUT)
        self._full = ""
        try:
            while written < len(data):
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    break
                # A pipe that is ready takes as much without blocking.
                written += os.write(self._descriptor, data[written : written + select.PIPE_BUF])
        except BlockingIOError:
            # Somebody else has taken the room, or made the descriptor non-blocking: later.
            return written
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                self._full = reason_of(error)
                return written
            # Nobody can read it any more: neither it nor what follows.
            with self._changed:
                self._lost_in_all += data[written:].count(b"\n")
            return len(data)
        return written
