"""MessageSearch: a search of words in what was said in a user's sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentic_backend.protocol.messages import Channel
from agentic_backend.stores.records import MessageRecord
from agentic_backend.stores.rows import folded

SEARCHED_CHANNEL = Channel.FINAL
"""Users' messages and agents' answers."""


@dataclass(frozen=True, slots=True)
class MessageSearch:
    """The user's messages and the answers to them that contain all `words`, in any case; not of `not_session`, its
    branches or its ancestors.
    """

    user_id: str
    words: Sequence[str]
    not_session: str | None = None
    limit: int = 10

    @property
    def folded_words(self) -> list[str]:
        return [folded(word) for word in self.words]


class MessageSearchStore(Protocol):
    """The operation of a Store that searches messages."""

    async def find_messages(self, search: MessageSearch) -> list[MessageRecord]:
        """At most `search.limit` messages, of the sessions that were last active first.

        Raises RateLimited if it exceeds the timeout of an operation; the store then stops it.
        """
        ...
