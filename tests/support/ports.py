"""Ports for services that need their port before they start; others take port 0 and report theirs."""

import contextlib
import random
import socket

# Below those that the kernel gives to who asks for any port: nobody takes one by chance before its service does.
_LOWEST, _HIGHEST = 20_000, 30_000
# Not the seeded one: two lanes would choose the same.
_choice = random.SystemRandom()


def free_port() -> int:
    """A loopback port that is free at the moment."""
    while True:
        port = _choice.randrange(_LOWEST, _HIGHEST)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
