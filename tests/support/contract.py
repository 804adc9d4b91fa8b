"""Writes the published documents of the contract to docs/.

A program: `python -m support.contract`, in tests/, writes each document that has changed.
"""

from pathlib import Path
from typing import Any, cast

from agentic_backend.app import operations
from agentic_backend.transports.contract.documents import documents
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.operation import Operation

DOCS = Path(__file__).parents[2] / "docs"


class _NoServices:
    """Stands for the services of a server: operations are described, and never called."""

    def __getattr__(self, name: str) -> Any:
        return self


def declared() -> list[Operation]:
    """The operations of all doors."""
    return operations(cast(DoorServices, _NoServices()))


if __name__ == "__main__":
    for path, document in documents(declared()).items():
        file = DOCS / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document)
