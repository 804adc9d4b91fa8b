"""MessageStore: how a Store reads messages; they are written with their exchange (see base)."""

from typing import Protocol

from agentic_backend.stores.records import MessageRecord


class MessageStore(Protocol):
    """The operations of a Store that read messages by rank."""

    async def exchange_messages(self, exchange_id: str, max_bytes: int | None = None) -> list[MessageRecord]:
        """All messages of one exchange, by rank.

        With `max_bytes`, only the first one and as many of the last ones as fit, at least one.
        """
        ...

    async def messages_after(
        self, session_id: str, after_rank: int, limit: int, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        """At most `limit` messages with a rank above `after_rank` (-1: from the first), by rank, shared ones too.

        With `max_bytes`, as many of these as fit, at least one; the store reads little more than that.
        """
        ...

    async def last_exchanges(self, session_id: str, count: int, max_bytes: int | None = None) -> list[MessageRecord]:
        """The messages of the last `count` ended exchanges, by rank, shared ones too.

        The cost doesn't depend on the session's length.

        With `max_bytes`, only as many complete exchanges as fit, the last ones.
        """
        ...
