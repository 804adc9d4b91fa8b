"""WorkerProcess: one process of a worker, from its start to its end, and the one call that it works on.

Owned by the worker's `WorkerCalls`. Its end is the end of its socket: whatever becomes of the server, the program
notices that, and leaves nothing behind.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from agentic_backend.disclosure.exception_detail import is_authors, shown_place
from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.worker_processes.frames import (
    HEAD,
    Frame,
    Rubbish,
    lengths_in,
    packed,
    size_of_lengths,
    unpacked,
)
from agentic_backend.worker_processes.worker import Worker

_PROGRAM = Path(__file__).with_name("program.py")
_END_S = 5.0
"""How long the program may take to kill what there is, in seconds, before all of it is killed from here."""
_READ_AHEAD = 1024 * 1024
_LONGEST = 200

Loss = Literal["died", "rubbish", "timeout", "memory"]


class CodeRaised(Exception):
    """The worker's code has raised; the process goes on. `where` is its author's line."""

    def __init__(self, error: str, where: str | None) -> None:
        super().__init__(error)
        self.error = error
        self.where = where


class ProcessLost(Exception):
    """The process can't be used any more, and has to be closed."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss)
        self.loss: Loss = loss


class WorkerProcess:
    def __init__(
        self, process: "subprocess.Popen[bytes]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._number = 0
        """The number of the last call: what comes with another one is rubbish."""

    @classmethod
    async def begun(cls, worker: Worker) -> "WorkerProcess":
        """A new process, in which nothing is imported yet. Raises OSError if there can be none."""
        ours, its = socket.socketpair()
        # From a thread: the loop doesn't wait until the system has made a process.
        beginning = asyncio.ensure_future(asyncio.to_thread(_begin, worker, its))
        try:
            process = await asyncio.shield(beginning)
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_READ_AHEAD)
        except BaseException:
            ours.close()
            # A cancelled owner waits for it too: no process outlives its owner.
            with suppress(OSError):
                await asyncio.to_thread(_wait, await beginning)
            raise
        finally:
            its.close()
        return cls(process, reader, writer)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended without being called."""
        return self._reader.at_eof()

    async def make(self, worker: Worker) -> None:
        """Import the class and make its value. Raises CodeRaised and ProcessLost."""
        said = {
            "class_path": worker.class_path,
            "arguments": worker.arguments,
            "memory_bytes": worker.memory_mb * 1024 * 1024,
        }
        await self.call(packed(said), worker.start_s)

    async def call(self, frame: Frame, timeout_s: float) -> Any:
        """What it answers. Raises CodeRaised and ProcessLost, also if it takes longer."""
        self._number += 1
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.writelines(frame.numbered(self._number))
                await self._writer.drain()
                value = await self._received()
        except TimeoutError:
            raise ProcessLost("timeout") from None
        except (asyncio.IncompleteReadError, OSError):
            raise ProcessLost("died") from None
        except Rubbish:
            raise ProcessLost("rubbish") from None
        return _answer_in(value)

    async def _received(self) -> Any:
        number, told, count = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        if number != self._number:
            raise Rubbish("an answer to nothing")
        lengths = await self._reader.readexactly(size_of_lengths(told, count))
        first, *pieces = [await self._reader.readexactly(length) for length in lengths_in(told, lengths)]
        return await in_thread_if_long(told, unpacked, first, pieces)

    async def aclose(self) -> str:
        """End it with all that it has started; returns how it ended, in words."""
        self._writer.transport.abort()
        # A cancelled owner waits for it too: the process must not outlive it.
        ending = asyncio.ensure_future(asyncio.to_thread(_wait, self._process))
        try:
            code = await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise
        return _told(code)


def _begin(worker: Worker, its: socket.socket) -> "subprocess.Popen[bytes]":
    folders = [os.path.abspath(folder) for folder in sys.path]
    # Isolated, and of the environment only what is named: no secret of the server's is there.
    return subprocess.Popen(
        [sys.executable, "-I", str(_PROGRAM), str(its.fileno()), *folders],
        stdin=subprocess.DEVNULL,
        # Whatever it prints is read by nobody, as it may hold texts of people.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in worker.environment if name in os.environ},
        pass_fds=(its.fileno(),),
        # Ctrl-C in the server's terminal is the server's.
        start_new_session=True,
    )


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait until it has ended, and see to it. Blocks for some milliseconds, in the worst case for twice `_END_S`."""
    code = -signal.SIGKILL.value
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(_END_S)
    if code == -signal.SIGKILL:
        # Its keeper has been stopped or killed, and sees to nothing.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    return code


def _answer_in(value: Any) -> Any:
    """Raises CodeRaised and ProcessLost."""
    if type(value) is not dict:
        raise ProcessLost("rubbish")
    if value.keys() == {"answer"}:
        return value["answer"]
    error, lines = value.get("error"), value.get("lines")
    if type(error) is not str or type(lines) is not list or not all(map(_is_line, lines)):
        raise ProcessLost("rubbish")
    if error == "MemoryError":
        raise ProcessLost("memory")
    own = [line for line in lines if is_authors(line[0])] or lines
    where = shown_place(*own[-1])[:_LONGEST] if own else None
    raise CodeRaised(error[:_LONGEST] if error.isidentifier() else "Exception", where)


def _is_line(line: object) -> bool:
    return type(line) is list and [type(each) for each in line] == [str, int, str]


def _told(code: int) -> str:
    number = code - 128 if code > 128 else -code
    if number <= 0:
        return f"status {code}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"status {code}"
