"""The services that the benchmark measures with, started as the tests start them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Before the tests' own modules are imported, which live there.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from services.ferretdb import FerretDb
from services.mcp_echo import echo_server

__all__ = ["echo_server", "mongodb"]


@contextmanager
def mongodb(directory: Path) -> Iterator[str]:
    """The URL of the server that `MONGODB_URL` names, else of a FerretDB with its data in `directory`."""
    if url := os.environ.get("MONGODB_URL"):
        yield url
        return
    directory.mkdir(parents=True)
    server = FerretDb(directory)
    server.start()
    try:
        yield f"mongodb://127.0.0.1:{server.port}/"
    finally:
        server.stop()
