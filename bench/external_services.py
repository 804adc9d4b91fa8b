"""The services that the benchmark measures with, started as the tests start them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Before the tests' own modules are imported, which live there.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from redis import Redis as Client
from services.mcp_echo import echo_server
from services.mongo_java import MongoJava
from services.redis import Redis

__all__ = ["echo_server", "mongodb_in_memory", "redis", "redis_spent"]


@contextmanager
def mongodb_in_memory() -> Iterator[str]:
    """The URL of the server that `MONGODB_URL` names, else of a mongo-java-server, which bears many clients."""
    if url := os.environ.get("MONGODB_URL"):
        yield url
        return
    server = MongoJava()
    server.start()
    try:
        yield f"mongodb://127.0.0.1:{server.port}/"
    finally:
        server.stop()


@contextmanager
def redis(directory: Path) -> Iterator[str]:
    """The URL of a Redis without persistence."""
    server = Redis(directory)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def redis_spent(url: str) -> tuple[float, float]:
    """The memory of all that a Redis keeps, in KiB, and its processor time so far, in ms."""
    with Client.from_url(url) as client:
        info = client.info()
    return info["used_memory_dataset"] / 1024, (info["used_cpu_user"] + info["used_cpu_sys"]) * 1000
