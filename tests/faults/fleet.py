"""Several instances of the server on one database, behind one address that leads to each of them in turn."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
from support.server_process import ServerProcess, serving
from support.tcp_line import RoundRobin, round_robin


class Fleet:
    """`instances` are those of the moment; one that has ended stays behind the address until it is started again."""

    def __init__(self, line: RoundRobin, directory: Path, arguments: list[str], environment: Mapping[str, str]) -> None:
        self.instances: list[ServerProcess] = []
        self._line = line
        self._directory = directory
        self._arguments = arguments
        self._environment = environment
        self._running = AsyncExitStack()

    @property
    def address(self) -> str:
        """Where clients go, whichever instance takes them."""
        return self._line.address

    async def start(self, count: int) -> None:
        for _ in range(count):
            self.instances.append(await self._start())
        self._line.targets = [_port(instance) for instance in self.instances]

    async def restart(self, place: int, number: int) -> int:
        """End an instance with a signal and start it again; the exit status of the one that has ended."""
        status = await self.instances[place].stop(number)
        self.instances[place] = await self._start()
        self._line.targets[place] = _port(self.instances[place])
        return status

    async def aclose(self) -> None:
        await self._running.aclose()

    async def _start(self) -> ServerProcess:
        server = serving(*self._arguments, cwd=self._directory, environment=self._environment)
        return await self._running.enter_async_context(server)


def _port(instance: ServerProcess) -> int:
    port = httpx.URL(instance.address).port
    assert port is not None
    return port


@asynccontextmanager
async def fleet(directory: Path, count: int, store: str, **environment: str) -> AsyncIterator[Fleet]:
    """`count` instances on the database at the URL `store`."""
    async with round_robin() as line:
        started = Fleet(line, directory, ["--store", store], environment)
        try:
            await started.start(count)
            yield started
        finally:
            await started.aclose()
