"""Ports for what must be told its port before it starts; whatever can takes port 0 and says what it got."""

import socket


def free_port() -> int:
    """A port of loopback that nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
