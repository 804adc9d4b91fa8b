"""The version of a database's schema: what a server must know to use it, and the work that brings it up to date.

SQLite migrates when the file is opened, since only one server uses it. MongoDB migrates while servers of two releases
use it, in small batches (see mongo/schema); `Upgrading` in sessions runs them.
"""

from dataclasses import dataclass
from typing import Protocol


class SchemaTooNew(Exception):
    """A newer server has written the database, in a schema that this one doesn't know."""

    def __init__(self, version: int, known: int) -> None:
        super().__init__(
            f"The database has schema version {version}, and this server knows versions up to {known}: "
            "run the newer server that wrote it, or restore a backup."
        )


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The result of one step: what it worked on, how many rows it changed, and how many works are `left`, with its own
    unless it has completed that. Without a name there was nothing to do."""

    name: str | None
    changed: int
    left: int


class SchemaStore(Protocol):
    """The operations of a Store on its own schema."""

    async def upgrades_left(self) -> int:
        """The number of migrations and indexes that the database still lacks."""
        ...

    async def upgrade(self) -> Upgraded:
        """Do one small step, which can be repeated and interrupted, and harms no other instance, of an older release
        either. An index is one step, however long it takes. Raises StoreUnavailable.
        """
        ...
