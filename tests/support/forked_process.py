"""Commands that a fork server runs; see support.fork_server."""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_TESTS = Path(__file__).parents[1]


class ForkedProcess:
    """What tests use of an `asyncio.subprocess.Process`; its output is read from pipes."""

    def __init__(
        self,
        pid: int,
        told: asyncio.StreamReader,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader | None,
    ) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = stdout, stderr
        self._ended = asyncio.create_task(self._end(told))

    async def wait(self) -> int:
        """Wait until it has ended; return its exit status, or minus the signal that has killed it."""
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        # It may have ended without that being told yet.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def _end(self, told: asyncio.StreamReader) -> int:
        # To the end, at which the pipe is closed.
        self.returncode = int(await told.read())
        return self.returncode


async def forked(
    arguments: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    stdin: int | None = None,
    stderr: int | None = None,
) -> ForkedProcess:
    """Run `python -m agentic_backend` with these arguments in a fork of a process that has imported it.

    `stdin` and `stderr` are descriptors, which stay the caller's.
    """
    pipes = [os.pipe() for _ in range(3 if stderr is None else 2)]
    (_, tell), (_, out) = pipes[:2]
    err = pipes[2][1] if stderr is None else stderr
    try:
        with open(os.devnull) as nothing:
            given = nothing.fileno() if stdin is None else stdin
            request = {"arguments": arguments, "cwd": str(cwd), "environment": dict(environment)}
            socket.send_fds(_requests(), [json.dumps(request).encode()], [given, out, err, tell])
    finally:
        for _, end in pipes:
            os.close(end)
    readers = [await _reader(end) for end, _ in pipes]
    return ForkedProcess(int(await readers[0].readline()), readers[0], readers[1], *(readers[2:] or [None]))


@functools.cache
def _requests() -> socket.socket:
    """The socket of this process's fork server, which is started for the first command."""
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "support.fork_server", str(theirs.fileno())]
        server = subprocess.Popen(command, cwd=_TESTS, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        requests.close()
        server.wait()

    atexit.register(end)
    return requests


async def _reader(end: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), open(end, "rb"))
    return reader
