"""A program that uses the TypeScript client, driven by a test (tests/clients/driven.mjs)."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.chat_client import PATIENCE_S

Line = dict[str, Any]
_LONGEST_LINE = 16 * 1024 * 1024


@dataclass(frozen=True)
class Consumer:
    """`directory` is a project with the client and `ws` installed; `packed` are the names of the client's files."""

    directory: Path
    packed: list[str]

    @property
    def client(self) -> Path:
        return self.directory / "node_modules" / "@agentic-backend" / "client"


class TypescriptClient:
    """Keeps all that the program has told in `lines`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[Line] = []
        self._told = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen())

    async def tell(self, do: str, **fields: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        await self._process.stdin.drain()

    async def until(self, wanted: Callable[[Line], Any], *, after: int = 0) -> Line:
        """The first such line from the line `after` on."""
        async with asyncio.timeout(PATIENCE_S), self._told:
            while True:
                for line in self.lines[after:]:
                    if wanted(line):
                        return line
                assert not self._listening.done(), "the program has ended"
                await self._told.wait()

    async def event(self, reader: str, type_: str) -> Line:
        """The first event of this type that the reader has got."""
        line = await self.until(lambda line: line.get("from") == reader and line.get("event", {}).get("type") == type_)
        event: Line = line["event"]
        return event

    async def ended(self, reader: str) -> list[Line]:
        """All events of a reader, once there are no more."""
        await self.until(lambda line: line.get("from") == reader and "ended" in line)
        return self.events(reader)

    async def failed(self, reader: str) -> Line:
        """How a reader has failed."""
        return await self.until(lambda line: line.get("from") == reader and line.get("failed"))

    async def answer(self, do: str, **fields: Any) -> Line:
        """What the program tells of a reader, or of its transcript, at once."""
        before = len(self.lines)
        await self.tell(do, **fields)
        reader = fields.get("as", do)
        return await self.until(lambda line: line.get("from") == reader and "event" not in line, after=before)

    @property
    def phases(self) -> list[str]:
        """Those of the connection after its first, `connecting`, in order; without repeats."""
        phases = [line["phase"] for line in self.lines if "phase" in line]
        return [phase for before, phase in pairwise(phases) if phase != before]

    def events(self, reader: str) -> list[Line]:
        return [line["event"] for line in self.lines if line.get("from") == reader and "event" in line]

    def written(self, reader: str) -> str:
        """The text that the reader has seen being written, since it was shown anew for the last time."""
        text = ""
        for event in self.events(reader):
            if event["type"] in ("started", "reset"):
                text = "".join(partial["text"] for partial in event.get("partial", ()))
            elif event["type"] == "delta":
                text += event["text"]
        return text

    async def until_written(self, reader: str, text: str) -> None:
        """Wait until the reader has seen these words being written."""
        await self.until(lambda _: self.written(reader).split() == text.split())

    async def close(self) -> int:
        """End the program as its user would; return its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            status = await self._process.wait()
            await self._listening
        return status

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._told:
                self.lines.append(json.loads(line))
                self._told.notify_all()
        async with self._told:
            self._told.notify_all()


@asynccontextmanager
async def typescript_client(
    consumer: Consumer, address: str, *tokens: str, native: bool = False, **options: Any
) -> AsyncIterator[TypescriptClient]:
    """A program of the consumer, which connects to the server; each token replaces one that is refused.

    With `native` it uses Node's own class of sockets instead of that of `ws`. `options` are driven.mjs's.
    """
    process = await asyncio.create_subprocess_exec(
        *("node", *(["--experimental-websocket"] if native else []), "driven.mjs", address, *tokens),
        cwd=consumer.directory,
        env={**os.environ, "DRIVEN": json.dumps({"native": native, **options})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_LINE,
    )
    client = TypescriptClient(process)
    try:
        yield client
        assert await client.close() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await client._listening
