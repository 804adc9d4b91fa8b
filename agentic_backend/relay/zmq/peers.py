"""Peers: where the workers of one server, each a process, hear each other."""

from dataclasses import dataclass
from pathlib import Path

LONGEST_PATH = 107
"""Bytes that the path of a Unix socket may have."""


@dataclass(frozen=True, slots=True)
class Peers:
    """As one worker sees them: `number` is its own, from 0 to `count` - 1; a worker that replaces it gets the same.

    `directory` is private to the server. Each worker has a socket in it.
    """

    directory: Path
    number: int
    count: int

    @property
    def own(self) -> str:
        return _endpoint(self.directory, self.number)

    @property
    def others(self) -> list[str]:
        return [_endpoint(self.directory, number) for number in range(self.count) if number != self.number]


def _endpoint(directory: Path, number: int) -> str:
    return f"ipc://{directory}/{number}"
