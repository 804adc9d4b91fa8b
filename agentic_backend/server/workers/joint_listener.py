"""The joint listener: metrics and health of all workers at one port, in a process of its own beside them.

Its parent starts it last and ends it last, so that probes and scrapers see the workers end. Each worker tells its port
by memory that the processes share.
"""

import asyncio
import mmap
import socket
import struct
from collections.abc import Mapping

import httpx

from agentic_backend.app import joint_internal
from agentic_backend.config.settings import Settings
from agentic_backend.server.process import Listener

_PORT = struct.Struct("=H")


class WorkerPorts:
    """The ports of the workers' own internal listeners, on loopback. Made before the fork, used by all processes."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._shared = mmap.mmap(-1, workers * _PORT.size)

    def tell(self, worker: int, port: int) -> None:
        """The worker listens there from now on; with 0, nowhere."""
        _PORT.pack_into(self._shared, worker * _PORT.size, port)

    def known(self) -> Mapping[int, int]:
        """The ports of those that listen, by the workers' numbers."""
        ports = [_PORT.unpack_from(self._shared, worker * _PORT.size)[0] for worker in range(self._workers)]
        return {worker: port for worker, port in enumerate(ports) if port}


def serve_jointly(settings: Settings, bound: socket.socket, ports: WorkerPorts) -> None:
    """Serve on `bound` until the process ends."""
    asyncio.run(_serve(settings, bound, ports))


async def _serve(settings: Settings, bound: socket.socket, ports: WorkerPorts) -> None:
    # Nothing of the environment, such as a proxy; a connection for each call, because workers come and go.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=None) as client:
        await Listener(joint_internal(settings, client, ports.known), bound, settings.limits).listen()
