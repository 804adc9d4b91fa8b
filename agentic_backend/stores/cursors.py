"""Cursors of pages, opaque to clients.

A cursor names a place in an order (the latest first, then by id), not an offset: if some rows move, pages still neither
repeat nor skip the others.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime

from pydantic import TypeAdapter

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.messages import Timestamp

_PLACE: TypeAdapter[tuple[datetime, str]] = TypeAdapter(tuple[Timestamp, str])


def cursor_at(at: datetime, row_id: str) -> str:
    """The cursor behind the row with this time and id."""
    return urlsafe_b64encode(_PLACE.dump_json((at, row_id))).decode()


def place_of(cursor: str | None) -> tuple[datetime, str] | None:
    """The time (in UTC) and the id of the row before `cursor`, or None. Raises BadFrame."""
    if cursor is None:
        return None
    try:
        at, row_id = _PLACE.validate_json(urlsafe_b64decode(cursor))
        return at.astimezone(UTC), row_id
    except (ValueError, OverflowError):
        raise BadFrame("cursor: not one that a page has given") from None
