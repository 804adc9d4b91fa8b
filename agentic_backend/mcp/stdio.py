"""The connection to an MCP server that runs as our child process: standard input, output, and error.

MCP's own transport reads lines of any length, and copies the whole line again with each new piece. Standard error
becomes debug lines of the log; the event loop reads it, never a thread.
"""

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import TextIO

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectReceiveStream, ObjectSendStream, Process
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage

from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.framing import Lines
from agentic_backend.mcp.inbound import MANY, REST_S, TURN_EVERY, Inbound, TooMuch
from agentic_backend.mcp.live_session import Streams

log = logging.getLogger(__name__)

_END_S = 2.0
"""How long a program may take to end by itself after its input has ended, in seconds."""
_LONGEST_LINE = 1000
"""Bytes of a line that are logged."""


@asynccontextmanager
async def stdio(
    server_id: str, settings: McpServerSettings, inbound: Inbound, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    """Start the server's program; end it when the context closes.

    Its environment is `env` of the settings, on top of PATH, HOME and the like. `on_break` is not used: if the
    program's output ends, so does the session. Raises OSError if the program can't be started.
    """
    assert settings.command is not None, "the settings are validated"
    program = [*await asyncio.to_thread(_ending_with_us), settings.command, *settings.args]
    into, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outof = anyio.create_memory_object_stream[SessionMessage](0)
    # The log shows less than a model: no value that the program was given.
    secrets = inbound.credentials.and_also(settings.env.values())
    async with into, read, write, outof, stderr_log(server_id, secrets) as errors:
        process = await anyio.open_process(
            program,
            env={**get_default_environment(), **settings.env},
            cwd=settings.cwd,
            stderr=errors,
            start_new_session=True,
        )
        # The program has its own copy; with ours open too, the pipe would not end with the program.
        errors.close()
        assert process.stdin is not None and process.stdout is not None
        async with process, anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process.stdout, into, inbound)
            tasks.start_soon(_write, outof, process.stdin)
            try:
                yield read, write
            finally:
                # The program first, so that the tasks see the end of its pipes; then tasks that still wait.
                await _end(process)
                tasks.cancel_scope.cancel()


@cache
def _ending_with_us() -> tuple[str, ...]:
    """The command that starts the program, if util-linux is installed: the kernel kills it if this process is killed.

    Other programs notice the end of their input; a hanging one doesn't.
    """
    return ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()


async def _read(
    output: ByteReceiveStream, into: ObjectSendStream[SessionMessage | Exception], inbound: Inbound
) -> None:
    """Pass on what `inbound` lets through of each line, until the program closes its output or sends too much."""
    lines = Lines()
    with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, TooMuch):
        async with into:
            while True:
                data = await output.receive()
                dropped = 0
                for line in lines.feed(data):
                    said = await inbound.read(line) if line.size else None
                    if said is not None and (message := _parsed(said)) is not None:
                        await into.send(message)
                    dropped += said is None
                    if dropped % TURN_EVERY == 1:
                        await asyncio.sleep(0)
                if lines.line.is_cut:
                    inbound.spend(len(data))
                await asyncio.sleep(REST_S if dropped >= MANY else 0)


def _parsed(said: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(JSONRPCMessage.model_validate_json(said))
    except ValueError:
        return None


async def _write(outof: ObjectReceiveStream[SessionMessage], input_: ByteSendStream) -> None:
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with outof:
            async for message in outof:
                line = message.message.model_dump_json(by_alias=True, exclude_none=True)
                await input_.send(f"{line}\n".encode())


async def _end(process: Process) -> None:
    """End the program as the protocol asks: close its input, and give it time before terminating it."""
    assert process.stdin is not None
    # A program that reads to the end of its input ends by itself.
    with contextlib.suppress(Exception):
        await process.stdin.aclose()
    with anyio.move_on_after(_END_S) as waiting:
        await process.wait()
    # Others are terminated, and then killed, with all their child processes.
    if waiting.cancelled_caught:
        await terminate_posix_process_tree(process)


class _ErrorLines(asyncio.Protocol):
    """Logs whole lines, cut to a bound; the rest of a long line is dropped as it arrives."""

    def __init__(self, server_id: str, credentials: Credentials) -> None:
        self._server_id = server_id
        """The server's name in the log."""
        self._credentials = credentials
        """The credentials that the log must not show."""
        # Twice the longest: what remains of a credential becomes longer if another one within it is redacted.
        self._unsure = 2 * credentials.longest()
        """Bytes at the end of a cut line that may be a part of a credential, which nothing recognizes."""
        self._read = _LONGEST_LINE + self._unsure
        """Bytes of a line that are read."""
        self._rest = b""
        """The unfinished line; it has more than `_read` bytes if it is cut."""

    def data_received(self, data: bytes) -> None:
        if not log.isEnabledFor(logging.DEBUG):
            return
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._log(line)
        self._rest = rest[: self._read + 1]

    def connection_lost(self, _: Exception | None) -> None:
        self._log(self._rest)

    def _log(self, line: bytes) -> None:
        said = self._credentials.redacted_text(line[: self._read].decode(errors="replace")).encode()
        if len(line) > self._read:
            said = said[: max(len(said) - self._unsure, 0)]
        text = said[:_LONGEST_LINE].decode(errors="replace").rstrip()
        if text:
            log.debug("MCP server says", extra={"mcp_server": self._server_id, "text": text})


@asynccontextmanager
async def stderr_log(server_id: str, credentials: Credentials) -> AsyncIterator[TextIO]:
    """A file for a process's standard error, which goes to the log without the `credentials`."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as sink:
        source = os.fdopen(reading, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: _ErrorLines(server_id, credentials), source
        )
        try:
            yield sink
        finally:
            transport.close()
