"""SessionSearch: a search of words in a user's sessions, which shows where they were said."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from agentic_backend.stores.cursors import cursor_at, place_of
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.rows import folded, message_bytes

HITS_PER_SESSION = 3
"""The messages that are shown of a session."""
PAGE_BYTES = 1024 * 1024
"""The bytes of messages after which a page ends."""


@dataclass(frozen=True, slots=True)
class SessionSearch:
    """The user's sessions whose title, or one of whose messages, has all `words`, in any case.

    Of the messages, those of their user and the answers count. `cursor` is the `next_cursor` of another page.
    """

    user_id: str
    words: Sequence[str]
    limit: int = 20
    cursor: str | None = None

    @property
    def folded_words(self) -> list[str]:
        return [folded(word) for word in self.words]

    @property
    def place(self) -> tuple[datetime, str] | None:
        """`updated_at` (in UTC) and `id` of the previous page's last session, or None. Raises BadFrame."""
        return place_of(self.cursor)


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session, and the last HITS_PER_SESSION of its own messages that have the words, the last one first.

    A branch's own messages are those from its fork on; those before it are found in the session that they belong to.
    """

    session: SessionRecord
    messages: Sequence[MessageRecord]


@dataclass(slots=True)
class FoundPage:
    """Found sessions, the last updated first. The page ends before its `limit` if its messages are large."""

    found: list[FoundSession] = field(default_factory=list)
    next_cursor: str | None = None
    _bytes: int = 0

    def add(self, session: SessionRecord, messages: Sequence[MessageRecord]) -> bool:
        """Add a session; False if the page is full then."""
        self.found.append(FoundSession(session, messages))
        self._bytes += sum(map(message_bytes, messages))
        return self._bytes < PAGE_BYTES

    def end(self) -> None:
        """Say that more sessions follow."""
        last = self.found[-1].session
        self.next_cursor = cursor_at(last.updated_at, last.id)


class SessionSearchStore(Protocol):
    """The operation of a Store that searches sessions."""

    async def search_sessions(self, search: SessionSearch) -> FoundPage:
        """A page of what is found. Raises BadFrame if the cursor is invalid.

        Raises RateLimited if it exceeds the timeout of an operation; the store then stops it.
        """
        ...
