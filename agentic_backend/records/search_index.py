"""What an index of records in memory does, and what looks something up in indexes of one kind.

A record is a number, its slot. Slots are added from 0 on, and never used again.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from agentic_backend.stores.protocol.application_records import Searched


class SearchIndex(Protocol):
    column: ClassVar[Searched]
    """What of a record is in it."""
    read_at_once: ClassVar[int]
    """The number of records that are read and added at once: others wait for the loop meanwhile."""
    number: int
    """Of slots that are not gone."""

    @property
    def bytes(self) -> int:
        """About what it takes of memory."""
        ...

    @property
    def gone(self) -> int:
        """The number of slots that are gone."""
        ...

    def add(self, content: Any, /) -> None:
        """Add a record by what its column has, in the next slot."""
        ...

    def drop(self, slot: int, /) -> None:
        """Leave the slot out from now on."""
        ...


IndexT = TypeVar("IndexT", bound=SearchIndex)


class SearchQuery(Protocol[IndexT]):
    index: type[IndexT]
    together: bool
    """Whether the scores in one index depend on what is in the others: then all are needed at once."""

    def work(self, indexes: Sequence[IndexT], /) -> int:
        """What the time of `best` is linear in, as `in_thread_if_long` has it."""
        ...

    def best(self, indexes: Sequence[IndexT], limit: int, /) -> list[tuple[float, int, int]]:
        """The records with the highest scores, in no order: the score, which of the indexes, and the slot.

        At least `limit`, if so many have any, and all that score as high as the last of these; maybe others.
        """
        ...
