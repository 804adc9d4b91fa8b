"""Where a record is among those that are searched together: in the order of their writes, another place after each."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple, Self

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SearchedPlace(NamedTuple):
    at: int
    """When the record was written, in microseconds."""
    record: int
    """Which one it is, by 64 bits of a hash."""
    revision: int

    @classmethod
    def of(cls, written_at: datetime, record_id: str, revision: int) -> Self:
        record = int(sha256(record_id.encode()).hexdigest()[:16], 16)
        return cls((written_at - _EPOCH) // timedelta(microseconds=1), record, revision)

    @classmethod
    def read(cls, text: str) -> Self:
        at, record, revision = text.split(".")
        return cls(int(at, 16), int(record, 16), int(revision, 16))

    @property
    def text(self) -> str:
        """Texts sort as the times do."""
        return f"{self.at:016x}.{self.record:016x}.{self.revision:x}"


def first_at(at: datetime) -> str:
    """A text before those of all places from this time on."""
    return f"{(at - _EPOCH) // timedelta(microseconds=1):016x}"
