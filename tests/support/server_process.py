"""A server in a separate process, started from the command line."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.fork_server import search_path
from support.forked_process import ForkedProcess, forked

PATIENCE_S = 45


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python and the C library read when a process starts, and not later.

    Without PYTHONPATH, which a fork can follow too, but for a `sitecustomize` there.
    """
    names = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_")
    read = {name: value for name, value in environment.items() if name.startswith(names)}
    customized = any(Path(entry, "sitecustomize.py").exists() for entry in search_path(environment))
    return read if customized else {name: value for name, value in read.items() if name != "PYTHONPATH"}


_READ_AT_START = _read_at_start(os.environ)

_ADDRESSES = re.compile(r"^Chat at (\S+?)(?:, metrics and health at (\S+))?$", re.MULTILINE)


class ServerProcess:
    """`stdout` and `stderr` hold all output so far."""

    def __init__(self, process: asyncio.subprocess.Process | ForkedProcess) -> None:
        self.process = process
        self.stdout = self.stderr = ""
        self._listening = asyncio.create_task(self._listen())

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> str:
        """The printed address of the public listener."""
        return self._addresses()[0]

    @property
    def internal(self) -> str | None:
        """The printed address of the internal listener; None if it is off."""
        return self._addresses()[1]

    async def started(self, times: int = 1, timeout_s: float = PATIENCE_S) -> None:
        """Wait until it has printed its addresses so many times: each of its workers does."""
        async with asyncio.timeout(timeout_s):
            while len(_ADDRESSES.findall(self.stdout)) < times:
                assert self.process.returncode is None, f"ended with {self.process.returncode}: {self.stderr}"
                await asyncio.sleep(0.01)

    async def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until it has ended and its output is read; return the exit status."""
        async with asyncio.timeout(timeout_s):
            status = await self.process.wait()
            await self._listening
        return status

    async def stop(self, number: int = signal.SIGTERM, timeout_s: float = PATIENCE_S) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return await self.ended(timeout_s)

    def _addresses(self) -> tuple[str, str | None]:
        found = _ADDRESSES.search(self.stdout)
        assert found is not None, f"no address was printed: {self.stdout}{self.stderr}"
        return found[1], found[2]

    async def _listen(self) -> None:
        async def read(stream: asyncio.StreamReader | None, name: str) -> None:
            if stream is None:
                # The test reads it itself.
                return
            while data := await stream.read(65_536):
                setattr(self, name, getattr(self, name) + data.decode())

        await asyncio.gather(read(self.process.stdout, "stdout"), read(self.process.stderr, "stderr"))


@asynccontextmanager
async def command(
    *arguments: object,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    stderr: int = asyncio.subprocess.PIPE,
    **options: Any,
) -> AsyncIterator[ServerProcess]:
    """`python -m agentic_backend` with these arguments in the directory `cwd`; killed at the end if it still runs.

    It is a fork of a process that has imported the server already, unless it needs `options` of `subprocess` or its own
    of the variables that Python reads when it starts. `stderr` may be a descriptor, which stays open here.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTIC_", "OPENAI_"))}
    variables = inherited | dict(environment or {})
    process: asyncio.subprocess.Process | ForkedProcess
    if options or _read_at_start(variables) != _READ_AT_START:
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "agentic_backend", *map(str, arguments)],
            cwd=cwd,
            env=variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            **options,
        )
    else:
        own = None if stderr == asyncio.subprocess.PIPE else stderr
        process = await forked([*map(str, arguments)], cwd, variables, stderr=own)
    running = ServerProcess(process)
    try:
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await running.ended()


@asynccontextmanager
async def serving(
    *arguments: object, cwd: Path, environment: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[ServerProcess]:
    """A started server on a free port, with these additional arguments."""
    quick = {
        "AGENTIC_MODELS__DEFAULT__MODEL": "offline",
        "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 300}',
        **(environment or {}),
    }
    async with command("serve", "--port", 0, *arguments, cwd=cwd, environment=quick, **options) as server:
        await server.started()
        yield server
