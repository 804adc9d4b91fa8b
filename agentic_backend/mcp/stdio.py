"""The connection to an MCP server that is a program of our own, over its standard input and output.

MCP's own transport reads lines of any length, and copies all that it has of one with each piece that comes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectReceiveStream, ObjectSendStream, Process
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage

from agentic_backend.mcp.client_session import ReadStream, WriteStream
from agentic_backend.mcp.framing import Lines
from agentic_backend.mcp.inbound import Inbound, TooMuch

_END_S = 2.0
_TURN_EVERY, _MANY, _REST_S = 64, 64, 0.01


@asynccontextmanager
async def stdio_connection(
    program: Sequence[str], environment: Mapping[str, str], cwd: Path | None, errors: TextIO, inbound: Inbound
) -> AsyncIterator[tuple[ReadStream, WriteStream]]:
    """Start `program`, and end it when the block is left. Its environment comes on top of PATH, HOME and the like.

    Raises OSError where it can't be started.
    """
    into, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outof = anyio.create_memory_object_stream[SessionMessage](0)
    async with into, read, write, outof:
        process = await anyio.open_process(
            list(program),
            env={**get_default_environment(), **environment},
            cwd=cwd,
            stderr=errors,
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None
        async with process, anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process.stdout, into, inbound)
            tasks.start_soon(_write, outof, process.stdin)
            try:
                yield read, write
            finally:
                await _end(process)
                tasks.cancel_scope.cancel()


async def _read(
    output: ByteReceiveStream,
    into: ObjectSendStream[SessionMessage | Exception],
    inbound: Inbound,
) -> None:
    """Hand on what may be read of each line, until the program closes its output or sends without end."""
    lines = Lines()
    with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, TooMuch):
        async with into:
            while True:
                data = await output.receive()
                dropped = 0
                for line in lines.feed(data):
                    said = inbound.read(line) if line.size else None
                    if said is not None and (message := _parsed(said)) is not None:
                        await into.send(message)
                    dropped += said is None
                    if dropped % _TURN_EVERY == 1:
                        await asyncio.sleep(0)
                if lines.line.is_cut:
                    inbound.spend(len(data))
                await asyncio.sleep(_REST_S if dropped >= _MANY else 0)


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
    """As the protocol asks: close its input, and give it time to go before it is told to."""
    assert process.stdin is not None
    with contextlib.suppress(Exception):
        await process.stdin.aclose()
    with anyio.move_on_after(_END_S) as waiting:
        await process.wait()
    if waiting.cancelled_caught:
        await terminate_posix_process_tree(process)
