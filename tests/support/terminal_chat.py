"""`agentic-backend chat` as a process: through pipes, or on a terminal of its own."""

import asyncio
import os
import pty
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.forked_process import forked

PATIENCE_S = 90
"""The command imports the whole server before it begins."""

_ON_TERMINAL = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("agentic_backend", run_name="__main__", alter_sys=True)
"""


def chat_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTIC_", "OPENAI_"))}
    fast = {"AGENTIC_MODELS__DEFAULT__MODEL": "offline", "TERM": "xterm"}
    return {**inherited, **fast, **(more or {})}


@dataclass(frozen=True)
class Ended:
    status: int
    output: str
    errors: str


async def piped(*arguments: object, lines: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Ended:
    """Run it with `lines` as its whole input."""
    stdin, given = os.pipe()
    try:
        process = await forked(["chat", *map(str, arguments)], cwd, chat_environment(environment), stdin)
    finally:
        os.close(stdin)
    try:
        async with asyncio.timeout(PATIENCE_S):
            _, output, errors, status = await asyncio.gather(
                asyncio.to_thread(_give, given, lines.encode()),
                process.stdout.read(),
                process.stderr.read(),
                process.wait(),
            )
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(status, output.decode(), errors.decode())


def _give(pipe: int, data: bytes) -> None:
    # It may end before it has read all.
    with suppress(BrokenPipeError), open(pipe, "wb") as writer:
        writer.write(data)


class TerminalChat:
    """`shown` is all that the terminal has been sent so far, with line feeds for its ends of lines."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int) -> None:
        self.process = process
        self.shown = ""
        self._terminal = terminal
        self._seen = 0
        asyncio.get_running_loop().add_reader(terminal, self._read)

    async def until(self, text: str) -> None:
        """Wait until this has come after what was waited for before."""
        async with asyncio.timeout(PATIENCE_S):
            while (at := self.shown.find(text, self._seen)) < 0:
                assert self.process.returncode is None, f"ended before {text!r}: {self.shown}"
                await asyncio.sleep(0.02)
        self._seen = at + len(text)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._terminal)
        os.close(self._terminal)

    def _read(self) -> None:
        try:
            data = os.read(self._terminal, 65_536)
        except OSError:
            # Its other end is closed.
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._terminal)
        text = data.decode(errors="replace").replace("\r\n", "\n")
        # That a paste is to be marked, and no longer: a terminal shows nothing of it.
        self.shown = (self.shown + text).replace("\x1b[?2004h", "").replace("\x1b[?2004l\r", "")


@asynccontextmanager
async def on_terminal(
    *arguments: object, cwd: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[TerminalChat]:
    """It on a pseudo-terminal; killed at the end if it still runs."""
    terminal, inside = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", _ON_TERMINAL, "chat", *map(str, arguments)],
        cwd=cwd,
        env=chat_environment(environment),
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    chat = TerminalChat(process, terminal)
    try:
        yield chat
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        chat.close()
