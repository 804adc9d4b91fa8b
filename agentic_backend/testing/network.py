"""Blocks the network for a test: a socket to anything but this machine raises NetworkBlocked, which names the host.

For the whole process while a block is open, in all its threads. Processes that a test starts are not covered.
"""

import ipaddress
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost"})


class NetworkBlocked(RuntimeError):
    """Something has tried to reach `host`. Not an OSError: clients would take it for an outage, and try again."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"A test has tried to reach {host!r}, but its network is blocked. Script or record what is there, or allow "
            "the network with network=True."
        )
        self.host = host


class _Guard:
    """Counts the open blocks of the process, and keeps what they have replaced until the last one ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[list[str]] = []
        """The hosts that were tried, of each open block."""
        self._replaced: list[tuple[Any, str, Any]] = []
        """The owner, the name and the own attribute, if there was one, of each function that is replaced."""

    def enter(self, tried: list[str]) -> None:
        with self._lock:
            if not self._open:
                self._replace()
            self._open.append(tried)

    def leave(self, tried: list[str]) -> None:
        with self._lock:
            self._open[:] = [other for other in self._open if other is not tried]
            while not self._open and self._replaced:
                owner, name, own = self._replaced.pop()
                if own is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, own)

    def check(self, host: object) -> None:
        """Raise NetworkBlocked unless `host` is this machine."""
        if is_local(host):
            return
        shown = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
        for tried in self._open:
            tried.append(shown)
        raise NetworkBlocked(shown)

    def _replace(self) -> None:
        for name in ("connect", "connect_ex", "sendto"):
            self._wrap(socket.socket, name, self._check_address)
        self._wrap(socket.socket, "sendmsg", self._check_message)
        self._wrap(socket, "getaddrinfo", lambda args, named: self.check(args[0] if args else named.get("host")))
        for name in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
            self._wrap(socket, name, lambda args, named: self.check(args[0]))
        self._wrap(socket, "getnameinfo", lambda args, named: self.check(args[0][0]))
        # uvloop connects without Python's sockets.
        if (uvloop := sys.modules.get("uvloop")) is not None:
            for name in ("create_connection", "create_datagram_endpoint"):
                self._wrap(uvloop.Loop, name, self._check_named)

    def _wrap(self, owner: Any, name: str, check: Callable[[Sequence[Any], dict[str, Any]], None]) -> None:
        original = getattr(owner, name)

        def checked(*args: Any, **named: Any) -> Any:
            check(args, named)
            return original(*args, **named)

        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, checked)

    def _check_address(self, args: Sequence[Any], named: dict[str, Any]) -> None:
        """`args` are those of a method of a socket; the address comes last."""
        family = args[0].family
        if family in (socket.AF_INET, socket.AF_INET6) and len(args) > 1:
            address = args[-1]
            self.check(address[0] if isinstance(address, tuple) else address)

    def _check_message(self, args: Sequence[Any], named: dict[str, Any]) -> None:
        """`args` are those of `sendmsg`: the socket, what is sent, what is beside it, flags, and perhaps an address."""
        if len(args) > 4:
            self._check_address(args, named)

    def _check_named(self, args: Sequence[Any], named: dict[str, Any]) -> None:
        """`args` are those of a method of an event loop: itself, the protocol's factory, and a host or an address."""
        host = args[2] if len(args) > 2 else named.get("host") or named.get("remote_addr")
        self.check(host[0] if isinstance(host, tuple) else host)


_GUARD = _Guard()


@contextmanager
def blocked_network() -> Iterator[list[str]]:
    """Block the network within the context, and yield the hosts that something has tried to reach, as a live list."""
    tried: list[str] = []
    _GUARD.enter(tried)
    try:
        yield tried
    finally:
        _GUARD.leave(tried)


def is_local(host: object) -> bool:
    """Whether `host`, a name or an address, is this machine: loopback, or no address at all."""
    if host is None:
        return True
    name = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
    if name.lower() in _LOCAL_NAMES or name == socket.gethostname():
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
