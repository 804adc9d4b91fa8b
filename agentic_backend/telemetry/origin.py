"""Origin: which package a log record is from, and which packages are logged from which level on."""

import logging
from collections.abc import Collection

OURS = "agentic_backend"
"""The package of the server."""


class OursOrWarnings(logging.Filter):
    """Passes records of the server and of `packages`, and warnings or above of all others."""

    def __init__(self, packages: Collection[str] = ()) -> None:
        super().__init__()
        self._packages = {OURS, *packages}
        """The packages whose records pass below level warning too."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or package_of(record) in self._packages


def package_of(record: logging.LogRecord) -> str:
    """The first part of the name of its logger."""
    return record.name.partition(".")[0]
