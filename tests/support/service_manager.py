"""A service manager as a process sees one: a datagram socket, and what was said to it."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from support.server_process import PATIENCE_S


class ServiceManager:
    """`heard` holds every message so far, in order; `environment` is what it gives to a service."""

    def __init__(self, address: str, silent_at_most_s: float | None = None) -> None:
        """`address`: a path, or `@` and the name of an abstract socket."""
        self.heard: list[str] = []
        self.environment = {"NOTIFY_SOCKET": address}
        if silent_at_most_s is not None:
            self.environment["WATCHDOG_USEC"] = str(round(silent_at_most_s * 1e6))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def listen(self) -> list[str]:
        """What has been said since the last call, which is added to `heard`."""
        said = []
        while True:
            try:
                said.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                self.heard += said
                return said

    async def until(self, message: str, times: int = 1) -> None:
        """Wait until the message has been said so often from now on."""
        async with asyncio.timeout(PATIENCE_S):
            while times > 0:
                times -= self.listen().count(message)
                await asyncio.sleep(0.01)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def service_manager(address: object, silent_at_most_s: float | None = None) -> Iterator[ServiceManager]:
    manager = ServiceManager(str(address), silent_at_most_s)
    try:
        yield manager
    finally:
        manager.close()
