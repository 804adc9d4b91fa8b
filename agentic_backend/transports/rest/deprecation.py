"""Deprecation: how clients learn that an operation will go."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from email.utils import format_datetime


@dataclass(frozen=True, slots=True)
class Deprecation:
    """An operation that will go: from `sunset` on, where that day is set."""

    since: date
    use: str
    """What to use instead."""
    sunset: date | None = None

    @property
    def headers(self) -> dict[str, str]:
        """`Deprecation` (RFC 9745), and `Sunset` (RFC 8594) where its day is set."""
        headers = {"deprecation": f"@{int(_begin_of(self.since).timestamp())}"}
        if self.sunset is not None:
            headers["sunset"] = format_datetime(_begin_of(self.sunset), usegmt=True)
        return headers


def _begin_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
