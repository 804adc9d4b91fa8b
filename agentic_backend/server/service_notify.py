"""ServiceNotify: tells the service manager, such as systemd, what the server does, and that it is alive.

The protocol is that of sd_notify(3): datagrams to the socket that `NOTIFY_SOCKET` names. Without that variable nothing
is sent. No message fails the server, or holds it up for longer than `_READ_WITHIN_S`.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Protocol

from agentic_backend.loop.event_loop import running

log = logging.getLogger(__name__)

_TIMES_IN_LIMIT = 3
# The socket holds some ten messages; a service manager reads them at once. What the server is must not get lost.
_READ_WITHIN_S = 2.0


class Supervisor(Protocol):
    """Who starts a server again: the service manager, or the parent of workers."""

    @property
    def silent_at_most_s(self) -> float | None:
        """A server that has not said `alive` for so long is replaced; None if it may be silent."""

    def ready(self) -> None:
        """It serves."""

    def reloading(self) -> None:
        """It reads its configuration anew; `ready` follows."""

    def stopping(self) -> None:
        """It ends, once its exchanges have ended."""

    def alive(self) -> None:
        """Its event loop turns."""


class ServiceNotify:
    """A Supervisor, whoever that is: systemd, a container engine, or nobody."""

    def __init__(self, address: str | None = None, silent_at_most_s: float | None = None) -> None:
        """`address`: the path of a socket, or `@` and the name of an abstract one; None if nobody listens."""
        self._address = address
        self._silent_at_most_s = silent_at_most_s if address else None
        self._has_failed = False
        """Whether a message could not be sent: the log says it once."""
        # Whether it is watched: from `ready` on. The earliest time to say again that it is alive.
        self._is_ready, self._alive_at = False, 0.0

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> "ServiceNotify":
        """As `environment` says, from which its variables are removed: child processes have nothing to say."""
        address, limit_us, watched = (
            environment.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        )
        is_watched = limit_us.isdecimal() and int(limit_us) > 0 and watched in ("", str(os.getpid()))
        # Any other kind of address, such as vsock of a virtual machine, is none of a service.
        return cls(
            address if address.startswith(("/", "@")) else None,
            int(limit_us) / 1e6 if is_watched else None,
        )

    @property
    def silent_at_most_s(self) -> float | None:
        return self._silent_at_most_s

    def ready(self) -> None:
        self._is_ready = True
        self._send("READY=1", _READ_WITHIN_S)

    def reloading(self) -> None:
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}", _READ_WITHIN_S)

    def stopping(self) -> None:
        self._send("STOPPING=1", _READ_WITHIN_S)

    def alive(self) -> None:
        """It may be called as often as one likes."""
        now = time.monotonic()
        if self._is_ready and self._silent_at_most_s is not None and now >= self._alive_at:
            # A little early rather than late.
            self._alive_at = now + 0.9 * self._silent_at_most_s / _TIMES_IN_LIMIT
            self._send("WATCHDOG=1", 0.0)

    def _send(self, message: str, wait_s: float) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                sending.settimeout(wait_s)
                sending.sendto(message.encode(), address)
        except OSError as error:
            if not self._has_failed:
                log.warning("service manager does not listen", extra={"reason": error.strerror or "it does not read"})
            self._has_failed = True


@asynccontextmanager
async def told_alive(supervisor: Supervisor) -> AsyncIterator[None]:
    """While the context is open, tell the supervisor that the event loop turns, as often as it wants to hear it."""
    limit_s = supervisor.silent_at_most_s
    if limit_s is None:
        yield
        return
    async with running(_tell_alive(supervisor, limit_s / _TIMES_IN_LIMIT)):
        yield


async def _tell_alive(supervisor: Supervisor, every_s: float) -> None:
    while True:
        supervisor.alive()
        await asyncio.sleep(every_s)
