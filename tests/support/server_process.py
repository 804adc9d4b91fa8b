"""A server in a process of its own, started as people start it."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 30

_ADDRESSES = re.compile(r"^Chat at (\S+?)(?:, metrics and health at (\S+))?$", re.MULTILINE)


class ServerProcess:
    """`stdout` and `stderr` hold all that it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.stdout = self.stderr = ""
        self._listening = asyncio.create_task(self._listen())

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> str:
        """Where clients go, as it was printed."""
        return self._addresses()[0]

    @property
    def internal(self) -> str | None:
        """Where metrics and health are; None where they are off."""
        return self._addresses()[1]

    async def started(self) -> None:
        """Until it has printed where it listens."""
        async with asyncio.timeout(PATIENCE_S):
            while not _ADDRESSES.search(self.stdout):
                assert self.process.returncode is None, f"ended with {self.process.returncode}: {self.stderr}"
                await asyncio.sleep(0.01)

    async def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Its exit status, once it has ended and said all."""
        async with asyncio.timeout(timeout_s):
            status = await self.process.wait()
            await self._listening
        return status

    async def stop(self, number: int = signal.SIGTERM, timeout_s: float = PATIENCE_S) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        return await self.ended(timeout_s)

    def _addresses(self) -> tuple[str, str | None]:
        found = _ADDRESSES.search(self.stdout)
        assert found is not None, f"no address was printed: {self.stdout}{self.stderr}"
        return found[1], found[2]

    async def _listen(self) -> None:
        async def read(stream: asyncio.StreamReader | None, name: str) -> None:
            assert stream is not None
            while data := await stream.read(65_536):
                setattr(self, name, getattr(self, name) + data.decode())

        await asyncio.gather(read(self.process.stdout, "stdout"), read(self.process.stderr, "stderr"))


@asynccontextmanager
async def command(
    *arguments: object, cwd: Path, environment: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[ServerProcess]:
    """`python -m agentic_backend` with these arguments in the directory `cwd`; killed at the end if it still runs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTIC_", "OPENAI_"))}
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "agentic_backend", *map(str, arguments)],
        cwd=cwd,
        env={**inherited, **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        **options,
    )
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
    """A server that has started, on a free port, with these further arguments."""
    quick = {
        "AGENTIC_MODELS__DEFAULT__MODEL": "offline",
        "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 300}',
        **(environment or {}),
    }
    async with command("serve", "--port", 0, *arguments, cwd=cwd, environment=quick, **options) as server:
        await server.started()
        yield server
