"""The cursor of a list of sessions: the place of a page's last session, opaque to clients.

It names a place in the order (last updated first, then by id), not an offset, so that pages neither repeat nor skip
sessions that keep still while others move.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime

from pydantic import TypeAdapter

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.messages import Session, Timestamp

_PLACE: TypeAdapter[tuple[datetime, str]] = TypeAdapter(tuple[Timestamp, str])


def cursor_after(session: Session) -> str:
    return urlsafe_b64encode(_PLACE.dump_json((session.updated_at, session.id))).decode()


def place_of(cursor: str) -> tuple[datetime, str]:
    """`updated_at` (in UTC) and `id` of the session that the page before ended with. Raises BadFrame."""
    try:
        updated_at, session_id = _PLACE.validate_json(urlsafe_b64decode(cursor))
        return updated_at.astimezone(UTC), session_id
    except (ValueError, OverflowError):
        raise BadFrame("cursor: not the next_cursor of a page") from None
